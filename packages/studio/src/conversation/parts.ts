import type { DynamicToolUIPart, UIMessage } from "ai";

import type { Decision } from "../api/decisions";
import type { SubAgentData, Tool } from "../api/types";
import type { StateName } from "../ui/State";

export type ToolPart = Pick<DynamicToolUIPart, "toolCallId" | "toolName" | "state" | "input" | "output" | "errorText" | "approval" | "providerExecuted">;

type Part = UIMessage["parts"][number];

/** The tool call that a part is, whatever its type says. */
export function toolPart(part: Part): ToolPart | null {
  if (part.type === "dynamic-tool") return part as ToolPart;
  if (part.type.startsWith("tool-")) return { ...(part as unknown as ToolPart), toolName: part.type.slice("tool-".length) };
  return null;
}

/** The sub-agents of a message, each with the call that began it. */
export function subAgents(message: UIMessage): SubAgentData[] {
  return message.parts.filter((part) => part.type === "data-subagent").map((part) => (part as { data: SubAgentData }).data);
}

/** Whether the calls of a tool wait for a person. */
const isGated = (part: ToolPart, tools: Tool[]) => part.state === "output-denied" || (tools.find((one) => one.name === part.toolName)?.approval ?? "never") !== "never";

/** Whether messages have decided calls of which they do not tell who decided. */
export function lacksDecisions(messages: UIMessage[], tools: Tool[]): boolean {
  return messages.some((message) => {
    const told = decisions(message);
    return message.parts.some((one) => {
      const part = toolPart(one);
      return part !== null && part.state.startsWith("output-") && !told.has(part.toolCallId) && isGated(part, tools);
    });
  });
}

/** What persons decided about the calls of a message, by the id of the call. */
export function decisions(message: UIMessage): Map<string, Decision> {
  const all = new Map<string, Decision>();
  for (const part of message.parts) {
    if (part.type !== "data-approval") continue;
    const { data } = part as { data: { toolCallId: string; approved?: boolean; reason?: string; decidedBy?: string } };
    all.set(data.toolCallId, { kind: data.approved ? "approved" : "denied", reason: data.reason, by: data.decidedBy });
  }
  return all;
}

/** Data parts that are drawn elsewhere, or not at all. */
const quiet = new Set(["data-approval", "data-subagent", "data-state-patch", "data-output", "data-resume-rejected"]);

/** The name and value of an event that a tool sent, if a part is one. */
export function customEvent(part: Part): { name: string; data: unknown } | null {
  if (!part.type.startsWith("data-") || quiet.has(part.type)) return null;
  return { name: part.type.slice("data-".length), data: (part as { data: unknown }).data };
}

/** The state of a call: `live` says whether its run goes on. */
export function stateOf(part: ToolPart, live: boolean, isPending: boolean): StateName {
  switch (part.state) {
    case "input-streaming":
      return live ? "queued" : "stopped";
    case "approval-requested":
      return "waiting";
    case "input-available":
    case "approval-responded":
      return isPending ? "waiting" : live ? "running" : "stopped";
    case "output-available":
      return "done";
    case "output-denied":
      return "denied";
    default:
      return "failed";
  }
}

/** The name of a tool as it is shown: that of the agent, for a call of one. */
export const shownName = (toolName: string): string => toolName.replace(/^subagent__/, "");

export const isSubAgentCall = (toolName: string): boolean => toolName.startsWith("subagent__");
