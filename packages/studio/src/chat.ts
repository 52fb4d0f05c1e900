// The only file that knows how the chat of a session is wired to the server: the transport, the reconnects, and
// what the page does when somebody else went on with the session.

import { HelixHttpError, createHelixChatTransport } from "@helix-agents/ai-sdk/client";
import { useHelixChat } from "@helix-agents/ai-sdk/react";
import { useQuery } from "@tanstack/react-query";
import type { UIMessage } from "ai";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";

import { ApiError, sentence } from "./api/client";
import { isReachable, onceBack, watchedFetch } from "./api/connection";
import { decide, decisionFrom, decisionOf, resume } from "./api/decisions";
import { queries, snapshotQuery, statusQuery, titleQuery } from "./api/queries";
import type { PendingCall, Snapshot, Status } from "./api/types";
import { draftKey, dropDraft, forgetStart, keepStart } from "./conversation/first";
import { useSteady } from "./conversation/steady";
import { stopRun } from "./conversation/stopping";
import { callKey } from "./lib/pending";
import { readStored } from "./lib/stored";
import { titleOf } from "./lib/summary";

const PAUSED_MS = 1000;
const IDLE_MS = 3000;
/** How often nothing waits before the run is continued: most servers do so by themselves. */
const LOOKS = 3;
/** In place of a sequence: the stream has more than the page has shown. */
const BEHIND = "behind";

const NOT_SENT = "The message was not sent. It is kept below.";

/** How the turn that was streamed last ended, as far as its stream told. */
export type LiveEnd = { interrupted?: { reason?: string }; error?: { text: string; code?: string } };

export type Conversation = {
  id: string;
  agentType: string | undefined;
  messages: UIMessage[];
  /** Whether there are older messages than these. */
  cut: boolean;
  /** Whether a run goes on and is shown. */
  busy: boolean;
  /** Whether the last bubble is told again, after its end. */
  recalling: boolean;
  /** Whether the message was sent and nothing came back yet. */
  waiting: boolean;
  /** Whether the run waits for an answer. */
  paused: boolean;
  stopping: boolean;
  pending: Map<string, PendingCall>;
  status: Status | undefined;
  end: LiveEnd;
  notes: string[];
  /** Why the last message was not sent. */
  sendError: string | null;
  /** A message that could not be sent, for the composer; each once. */
  unsent: { text: string; at: number } | null;
  send(text: string): void;
  stop(): void;
  /** Shows how a session goes on after an answer. */
  follow(): void;
};

const awaits = (message: UIMessage | undefined): boolean =>
  message?.parts.some((part) => part.type === "dynamic-tool" && (part.state === "approval-requested" || (part.state === "input-available" && !part.providerExecuted))) ?? false;

const sequenceOf = (now: Status): string => `${now.streamIncarnation ?? 0}:${now.streamSequence}`;

/** The chat of one session. `snapshot` is what the server has; without one the session begins with `first`. */
export function useConversation(id: string, agentType: string | undefined, snapshot: Snapshot | null, first: string | null): Conversation {
  const [exists, setExists] = useState(snapshot !== null);
  /** The same for what was begun before it changed. */
  const isKnown = useRef(exists);
  /** The message that was sent and not answered by anything yet. */
  const sending = useRef<{ id: string; text: string } | null>(null);
  const [transport] = useState(() => {
    const fetch: typeof watchedFetch = async (input, init) => {
      const answer = await watchedFetch(input, init);
      if (answer.ok && init?.method === "POST" && !String(input).endsWith("/interrupt")) {
        const text = sending.current?.text;
        if (!isKnown.current && text !== undefined) queries.setQueryData(titleQuery(id).queryKey, titleOf(text));
        sending.current = null;
        setSendError(null);
        found();
        // A new session is listed at once.
        void queries.invalidateQueries({ queryKey: ["sessions"] });
      }
      return answer;
    };
    return createHelixChatTransport<UIMessage>({ agentType, fetch });
  });
  const [end, setEnd] = useState<LiveEnd>({});
  const [notes, setNotes] = useState<string[]>([]);
  const [cut, setCut] = useState(snapshot?.hasMore ?? false);
  const [stopping, setStopping] = useState(false);
  const [sendError, setSendError] = useState<string | null>(() => (!snapshot && first === null && readStored(draftKey(id)) ? NOT_SENT : null));
  const [unsent, setUnsent] = useState<Conversation["unsent"]>(null);
  /** Whether the run of this stream told that it failed. */
  const failed = useRef(false);
  /** The run that the stream told of last. */
  const shownRun = useRef<string | undefined>(undefined);
  /** The sequence of the stream when the page had shown all of it, or `BEHIND`. */
  const seen = useRef<string | null>(null);
  /** The sequence of the stream at which the page last fetched everything anew. */
  const synced = useRef<string | null>(null);
  /** The deadlines of the calls that were seen to wait. */
  const deadlines = useRef(new Map<string, number | undefined>());
  /** The suspended run for which nothing waits any more, and how often it was seen. */
  const idle = useRef({ runId: "", looks: 0 });
  const syncing = useRef(false);
  const [replaying, setReplaying] = useState(false);
  /** Whether what is replayed has ended already. */
  const [recalling, setRecalling] = useState(false);
  const isFresh = useRef(true);
  /** How many times the turn was told that something shown is discarded, and how many of them were seen to. */
  const discarded = useRef({ turn: 0, count: 0, handled: 0 });

  /** The server has the session. */
  function found() {
    isKnown.current = true;
    setExists(true);
    forgetStart(id);
  }

  const chat = useHelixChat<UIMessage>({
    id,
    transport,
    messages: snapshot?.messages,
    experimental_throttle: 40,
    // The status is asked for here, which costs less than a snapshot.
    pollAnswers: false,
    onData(part) {
      const data = part.data as Record<string, unknown> | undefined;
      switch (part.type) {
        case "data-run-started": {
          failed.current = false;
          shownRun.current = data?.runId as string | undefined;
          setEnd({});
          setNotes([]);
          const turn = Number(data?.turn);
          discarded.current = { turn, count: 0, handled: discarded.current.turn === turn ? discarded.current.handled : 0 };
          break;
        }
        case "data-step-discarded":
        case "data-stream-resync": {
          // A replay tells it again, but leaves out what was discarded.
          const known = discarded.current;
          known.count += 1;
          if (known.count <= known.handled) break;
          known.handled = known.count;
          void restart();
          break;
        }
        case "data-run-interrupted":
          setEnd({ interrupted: { reason: data?.reason as string | undefined } });
          break;
        case "data-error":
          if (data?.recoverable === true) setNotes((all) => [...all, String(data.errorText)]);
          else {
            failed.current = true;
            setEnd({ error: { text: String(data?.errorText ?? "The run failed."), code: data?.code as string | undefined } });
          }
          break;
        case "data-pending":
          queries.setQueryData<Status>(statusQuery(id).queryKey, (old) => old && { ...old, pending: part.data as PendingCall[] });
          break;
      }
    },
    onFinish: () => void finished(),
    onError: (error) => void broken(error),
  });
  const busy = chat.status === "submitted" || chat.status === "streaming";
  const last = chat.messages.at(-1);
  const hasOpen = awaits(last);

  const status = useQuery({
    ...statusQuery(id),
    enabled: exists,
    refetchInterval: busy ? (hasOpen ? 1500 : false) : hasOpen ? PAUSED_MS : IDLE_MS,
  });

  const finished = useCallback(async () => {
    isFresh.current = false;
    seen.current = null;
    const { queryKey } = statusQuery(id);
    await queries.cancelQueries({ queryKey });
    const now = await queries.fetchQuery({ ...statusQuery(id), staleTime: 0 }).catch(() => undefined);
    // The next run may have begun, and ended, before the end of this one was known here.
    const isBehind = shownRun.current !== undefined && now?.runId !== shownRun.current;
    if (now) seen.current = isBehind ? BEHIND : sequenceOf(now);
    isFresh.current = true;
    for (const key of ["runs", "durations"]) void queries.invalidateQueries({ queryKey: [key, id] });
    for (const key of ["sessions", "pending"]) void queries.invalidateQueries({ queryKey: [key] });
  }, [id]);

  /** Follows the run of a snapshot, or tells its last bubble again: a snapshot has less of it than the stream. */
  const follow = useCallback(
    async (fresh: Snapshot) => {
      const lives = fresh.status === "active" || fresh.status === "paused";
      if (!lives && !fresh.messages.some((one) => one.role === "assistant")) return finished();
      setReplaying(true);
      setRecalling(!lives);
      try {
        await chat.resumeStream();
        if (!lives) await finished();
      } finally {
        setReplaying(false);
        setRecalling(false);
      }
    },
    [chat.resumeStream, finished],
  );

  const sync = useCallback(async () => {
    if (syncing.current || sending.current) return;
    syncing.current = true;
    try {
      const fresh = await queries.fetchQuery({ ...snapshotQuery(id), staleTime: 0 });
      // The snapshot leaves the bubble in flight out, so all of it is asked for.
      transport.forget(id);
      if (!isKnown.current) {
        dropDraft(id, fresh.messages.flatMap((one) => (one.role === "user" ? one.parts.map((part) => (part.type === "text" ? part.text : "")) : [])).filter(Boolean));
        setSendError(null);
      }
      found();
      chat.clearError();
      chat.setMessages(fresh.messages);
      setCut(fresh.hasMore ?? false);
      await follow(fresh);
    } catch (error) {
      // The connection bar tells when the server is gone; another answer is told in the next look at the status.
      // A session whose first message was not sent is not there yet.
      if (isKnown.current && error instanceof ApiError && error.status === 404) setSendError("This session was not found; it may have been deleted.");
    } finally {
      syncing.current = false;
    }
  }, [id, transport, chat.clearError, chat.setMessages, follow]);

  /** Follows the run anew, without what the page shows of it that no longer holds. */
  async function restart() {
    await chat.closeStream();
    while (syncing.current) await new Promise((done) => setTimeout(done, 10));
    await sync();
  }

  async function broken(error: Error) {
    const sent = sending.current;
    if (sent) {
      sending.current = null;
      chat.setMessages((all) => all.filter((one) => one.id !== sent.id));
      setUnsent({ text: sent.text, at: Date.now() });
      setSendError(error instanceof HelixHttpError && !error.retryable ? error.message : NOT_SENT);
      return;
    }
    if (failed.current) return;
    // The stream broke off. When the server is there it goes on at once, else when it is back.
    if (await isReachable()) {
      await new Promise((done) => setTimeout(done, 300));
      await sync();
    }
  }

  useEffect(() => onceBack(() => void sync()), [sync]);

  // The server may have taken a first message though it could not say so.
  useEffect(() => {
    if (exists || busy) return;
    const timer = setInterval(() => void sync(), IDLE_MS);
    return () => clearInterval(timer);
  }, [exists, busy, sync]);

  // The first look: a message to send, or a run to follow.
  const began = useRef(false);
  useEffect(() => {
    if (began.current) return;
    began.current = true;
    if (first !== null) void send(first);
    else if (snapshot) void follow(snapshot);
  });

  useEffect(() => {
    if (!busy) setStopping(false);
  }, [busy]);

  // What others did meanwhile.
  const now = status.data;
  useEffect(() => {
    if (!now || busy || syncing.current || sending.current || !isFresh.current) return;
    const sequence = sequenceOf(now);
    const before = seen.current;
    seen.current = sequence;
    const isBehind = before === BEHIND && synced.current !== sequence;
    const goesOn = now.runStatus === "running" || isBehind || (before !== null && before !== BEHIND && before !== sequence);
    // A question is shown that nobody waits for any more: once for each state of the stream.
    const isStale = hasOpen && now.runStatus !== undefined && !now.runStatus.startsWith("suspended") && synced.current !== sequence;
    if (!goesOn && !isStale) return;
    synced.current = sequence;
    void sync();
  }, [now, busy, hasOpen, sync]);

  // A server that does not continue by itself is told to, once all answers are there, whoever gave them.
  useEffect(() => {
    if (!now || busy || now.pending.length || now.runStatus !== "suspended_client_tool") return;
    const { runId = "" } = now;
    idle.current = { runId, looks: idle.current.runId === runId ? idle.current.looks + 1 : 1 };
    if (idle.current.looks === LOOKS) void resume(id).then(sync, () => {});
  }, [id, now, status.dataUpdatedAt, busy, sync]);

  // Who decided about a call that was answered elsewhere.
  useEffect(() => {
    for (const one of now?.answered ?? []) {
      const call = { ...one, rootSessionId: id };
      const known = decisionOf(call);
      const deadline = deadlines.current.get(callKey(one));
      if (!known || known.kind === "gone") decide(call, { ...decisionFrom({ decidedBy: "someone else", ...one, at: one.answeredAt, deadline }), late: known?.late });
    }
    for (const one of now?.pending ?? []) deadlines.current.set(callKey(one), one.deadline);
  }, [id, now]);

  async function send(text: string) {
    setSendError(null);
    setEnd({});
    setNotes([]);
    failed.current = false;
    const message = { id: crypto.randomUUID(), role: "user" as const, parts: [{ type: "text" as const, text }] };
    sending.current = { id: message.id, text };
    if (!isKnown.current) keepStart(id, { agentType, text });
    const interrupts = busy;
    if (interrupts) await chat.closeStream();
    await chat.sendMessage(message);
    // What the run before had said when it was interrupted, only the server knows.
    if (interrupts) await sync();
  }

  async function stop() {
    setStopping(true);
    try {
      // The stream tells when the run has ended.
      if (!(await stopRun(() => transport.interrupt(id), chat.status === "submitted"))) setStopping(false);
    } catch (error) {
      setStopping(false);
      setSendError(sentence(error));
    }
  }

  const messages = useSteady(chat.messages, replaying);
  // Both are the same from one tick of a stream to the next, or every card would be drawn anew.
  const calls = now?.pending ?? snapshot?.pending;
  const pending = useMemo(() => new Map((calls ?? []).map((call) => [callKey(call), call])), [calls]);
  const followOn = useCallback(() => void sync(), [sync]);
  return {
    id,
    agentType: now?.agentType ?? agentType,
    messages,
    cut,
    busy: busy && !recalling,
    recalling,
    waiting: chat.status === "submitted" && !replaying,
    paused: (!busy || recalling) && hasOpen && (now?.runStatus?.startsWith("suspended") ?? true),
    stopping,
    pending,
    status: now,
    end,
    notes,
    sendError,
    unsent,
    send: (text) => void send(text),
    stop: () => void stop(),
    follow: followOn,
  };
}
