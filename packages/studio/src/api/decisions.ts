// Answers to pending calls: sending them, and remembering who decided what.

import { useSyncExternalStore } from "react";

import { globalKey } from "../lib/pending";
import { ApiError, post } from "./client";
import { queries } from "./queries";
import type { Answered, PendingCall, Submitted } from "./types";

/** What became of a pending call. `by` is `you` for this page. */
export type Decision = {
  kind: "approved" | "denied" | "answered" | "failed" | "expired" | "gone";
  reason?: string;
  by?: string;
  at?: number;
  /** Why the answer of this page was not used. */
  late?: string;
};

const decisions = new Map<string, Decision>();
const listeners = new Set<() => void>();
let version = 0;

export const decisionOf = (call: Call): Decision | undefined => decisions.get(globalKey(call));

type Call = { rootSessionId: string; toolCallId: string; approvalId?: string };

export function decide(call: Call, decision: Decision) {
  decisions.set(globalKey(call), decision);
  // A call whose approval is no longer told is found by its own id.
  decisions.set(globalKey({ ...call, approvalId: undefined }), decision);
  version += 1;
  listeners.forEach((one) => one());
}

/** The decision of an answer. One to an approval that decides nothing is the deadline, which has passed. */
export function decisionFrom(answer: Pick<Answered, "approvalId" | "approved" | "reason" | "decidedBy"> & { at: number; deadline?: number }): Decision {
  const isLate = answer.approvalId !== undefined || (answer.deadline !== undefined && answer.at >= answer.deadline);
  if (answer.approved === undefined && isLate) return { kind: "expired", at: answer.at };
  const kind = answer.approved === undefined ? "answered" : answer.approved ? "approved" : "denied";
  return { kind, reason: answer.reason, by: answer.decidedBy, at: answer.at };
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

export function useDecision(call: Call): Decision | undefined {
  useSyncExternalStore(subscribe, () => version);
  return decisions.get(globalKey(call)) ?? decisions.get(globalKey({ ...call, approvalId: undefined }));
}

const LOOK_MS = 10_000;

type Response = { type: string; toolCallId: string; approved?: boolean; reason?: string; decidedBy?: string; timestamp: number };

/** Finds who decided about the calls of a session, by their ids. Only the stream of the session knows. */
export async function decisionsIn(sessionId: string, until: number): Promise<Map<string, Decision>> {
  const found = new Map<string, Decision>();
  const answer = await fetch(`/sse?${new URLSearchParams({ sessionId, fromSequence: "0" })}`, { signal: AbortSignal.timeout(LOOK_MS) });
  const reader = answer.ok ? answer.body?.pipeThrough(new TextDecoderStream()).getReader() : undefined;
  let text = "";
  while (reader) {
    const { value, done } = await reader.read();
    if (done) break;
    text += value;
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("id:") && Number(line.slice("id:".length)) >= until) {
        await reader.cancel();
        return found;
      }
      if (!line.startsWith("data:") || !line.includes('"tool_approval_response"')) continue;
      const chunk = JSON.parse(line.slice("data:".length)) as Response;
      if (chunk.type === "tool_approval_response") found.set(chunk.toolCallId, decisionFrom({ ...chunk, at: chunk.timestamp }));
    }
  }
  return found;
}

export type Answer = { approved: boolean; reason?: string } | { result: unknown } | { error: string };

function ofAnswer(answer: Answer): Decision {
  const at = Date.now();
  if ("approved" in answer) return { kind: answer.approved ? "approved" : "denied", reason: answer.reason, by: "you", at };
  return "error" in answer ? { kind: "failed", reason: answer.error, by: "you", at } : { kind: "answered", by: "you", at };
}

const LATE = {
  already_completed: "Your answer came too late and was not used.",
  late_answer_after_timeout: "Your answer came after the deadline. It was not used, and the agent is told about it.",
};

/** What is known of a call after an answer that was not used: a decision stays, and one of this page was in time. */
export function unused(known: Decision | undefined, late: string): Decision {
  if (!known || known.kind === "gone") return { kind: "gone", at: Date.now(), late };
  return known.by === "you" ? known : { ...known, late };
}

/** What came of an answer: whether it was used, and whether a run goes on. */
export type Outcome = { used: boolean; goesOn: boolean };

/**
 * Sends an answer, durable once this returns. The digest and the run of the call go with it, so that it can only
 * answer what was shown.
 */
export async function submit(call: PendingCall, answer: Answer): Promise<Outcome> {
  const key = globalKey(call);
  const before = underWay.get(key);
  // The first answer counts: what is pressed meanwhile waits for it, and is not sent.
  if (before) return before.then((first) => ({ ...first, used: false }));
  const sent = send(call, answer).finally(() => underWay.delete(key));
  underWay.set(key, sent);
  return sent;
}

/** The answers on their way to the server, by their calls. */
const underWay = new Map<string, Promise<Outcome>>();

async function send(call: PendingCall, answer: Answer): Promise<Outcome> {
  const { toolCallId, approvalId, digest, runId, rootSessionId } = call;
  const kind = call.kind === "approval" ? "approval-response" : "client-tool-result";
  try {
    const { status, continuation } = await post<Submitted>("/submit-tool-result", {
      sessionId: rootSessionId,
      kind,
      toolCallId,
      ...(approvalId ? { approvalId } : {}),
      digest,
      runId,
      ...answer,
    });
    if (status !== "accepted") {
      decide(call, unused(decisionOf(call), LATE[status]));
      return { used: false, goesOn: true };
    }
    decide(call, ofAnswer(answer));
    if (continuation === "caller_resumes") await resume(rootSessionId);
    return { used: true, goesOn: continuation !== "none" };
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "NOT_FOUND")) throw error;
    decide(call, unused(decisionOf(call), LATE.already_completed));
    return { used: false, goesOn: true };
  } finally {
    void queries.invalidateQueries({ queryKey: ["pending"] });
    void queries.invalidateQueries({ queryKey: ["status", rootSessionId] });
  }
}

/** Continues a session whose server does not do so by itself. Somebody else may have done so first. */
export async function resume(sessionId: string) {
  try {
    await post("/resume", { sessionId });
  } catch (error) {
    if (!(error instanceof ApiError && ["ALREADY_RUNNING", "ALREADY_COMPLETED"].includes(error.code ?? ""))) throw error;
  }
}
