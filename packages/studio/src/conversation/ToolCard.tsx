import { pendingOf } from "@helix-agents/ai-sdk/client";
import { Bot } from "lucide-react";
import { type ReactNode, memo, useMemo } from "react";

import { type Decision, useDecision } from "../api/decisions";
import { useTool } from "../api/queries";
import type { SubAgentData } from "../api/types";
import { equal } from "../lib/json";
import { useKept } from "../lib/stored";
import { summary } from "../lib/summary";
import { duration } from "../lib/time";
import { Chevron } from "../ui/Disclosure";
import { JsonView } from "../ui/JsonView";
import { StateIcon } from "../ui/State";
import { Visible } from "../ui/Visible";
import { ApprovalCard } from "./ApprovalCard";
import { ClientForm } from "./ClientForm";
import { DecisionLine } from "./DecisionLine";
import { SubAgent } from "./SubAgent";
import { useSurroundings } from "./context";
import { type ToolPart, isSubAgentCall, shownName, stateOf } from "./parts";

/** A labelled value of a call. */
export function Panel({ label, children }: { label: string; children: ReactNode }) {
  return (
    <section aria-label={label} className="min-w-0 px-3 py-2">
      <h2 className="mb-1 text-xs font-medium text-quiet">{label}</h2>
      {children}
    </section>
  );
}

/** A call of a tool: a question while it waits for this user, else one line that opens to its input and output. */
export const ToolCard = memo(function ToolCard({ part, live, told, subs }: { part: ToolPart; live: boolean; told?: Decision; subs: SubAgentData[] }) {
  const { sessionId, agentType, pending, durations, decided, paused, readOnly, follow } = useSurroundings();
  const isOpenQuestion = part.state === "approval-requested" || (part.state === "input-available" && !part.providerExecuted);
  const call = isOpenQuestion ? pendingOf(part as Parameters<typeof pendingOf>[0], [...pending.values()]) : undefined;
  const here = useDecision(call ?? { rootSessionId: sessionId, toolCallId: part.toolCallId, approvalId: part.approval?.id });
  const given = told ?? decided.get(part.toolCallId) ?? (part.state === "output-denied" ? { kind: "denied" as const } : undefined);
  // An answer of this page that came too late is told beside the one that counts.
  const decision = here?.kind === "gone" && given ? { ...given, late: here.late } : (here ?? given);
  const [open, setOpen] = useKept(`tool ${sessionId} ${part.toolCallId}`, false);
  const tool = useTool(agentType, part.toolName);
  const line = useMemo(() => summary(part.input), [part.input]);
  const onAnswered = (goesOn: boolean) => {
    if (goesOn) follow();
  };
  if (call && !readOnly && (!decision || decision.kind === "gone")) {
    const Card = call.kind === "approval" ? ApprovalCard : ClientForm;
    return (
      <div className="space-y-2">
        <Card call={call} known={{ sessionId, agentType }} onAnswered={onAnswered} />
        {decision && <DecisionLine decision={decision} />}
      </div>
    );
  }
  const state = decision?.kind === "denied" ? "denied" : stateOf(part, live, (call !== undefined && !decision) || (paused && part.providerExecuted === true));
  const took = durations.get(part.toolCallId);
  const name = tool?.title ?? shownName(part.toolName);
  const isAgent = isSubAgentCall(part.toolName) || subs.length > 0;
  return (
    <div data-testid="tool-card" data-tool={part.toolName} data-call={part.toolCallId} data-state={state}>
      <div className={`rounded-lg border border-line ${open ? "bg-surface" : "bg-sunken"}`}>
        <button type="button" aria-expanded={open} className="flex h-9 w-full min-w-0 items-center gap-2 rounded-lg px-2.5 text-left hover:bg-raised" onClick={() => setOpen(!open)}>
          <StateIcon state={state} />
          {isAgent && <Bot size={14} className="shrink-0 text-agent" aria-label="Sub-agent" role="img" />}
          <span className="max-w-[60%] shrink-0 truncate text-sm font-medium">
            <Visible text={name} />
          </span>
          <span className="min-w-0 grow truncate text-sm text-quiet">{line}</span>
          {took !== undefined && <span className="shrink-0 text-xs text-quiet tabular-nums">{duration(took)}</span>}
          <Chevron open={open} />
        </button>
        {decision && (
          <div className="border-t border-line px-3 py-1.5">
            <DecisionLine decision={decision} />
          </div>
        )}
        {open && (
          <div className="divide-y divide-line border-t border-line">
            <Panel label="Input">{part.input === undefined ? <p className="text-sm text-quiet">Still being written.</p> : <JsonView value={part.input} label="input" />}</Panel>
            <Outcome part={part} state={state} />
          </div>
        )}
      </div>
      {subs.map((one) => (
        <SubAgent key={one.sessionId} data={one} />
      ))}
    </div>
  );
}, equal);

function Outcome({ part, state }: { part: ToolPart; state: string }) {
  if (part.state === "output-available") {
    return (
      <Panel label="Output">
        <JsonView value={part.output} label="output" />
      </Panel>
    );
  }
  if (part.state === "output-error") {
    return (
      <Panel label="Output (failed)">
        <div className="text-failed">
          <JsonView value={part.errorText ?? ""} label="error" />
        </div>
      </Panel>
    );
  }
  const words: Record<string, string> = { denied: "It was denied, so it did not run.", waiting: "It waits for an answer.", running: "It is running.", stopped: "There is none: the run ended first.", queued: "There is none yet." };
  return (
    <Panel label="Output">
      <p className="text-sm text-quiet">
        {words[state] ?? "There is none yet."}
        {part.approval?.reason && (
          <>
            {" Reason: "}
            <Visible text={part.approval.reason} />
          </>
        )}
      </p>
    </Panel>
  );
}
