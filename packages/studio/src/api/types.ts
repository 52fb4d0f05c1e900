// The answers of the server, as far as the studio reads them. Unknown fields and names are ignored.

import type { UIMessage } from "ai";

import type { Schema } from "../lib/schema";

export type Tool = {
  name: string;
  description: string;
  title?: string;
  kind?: "server" | "client" | "sub_agent";
  approval?: "never" | "always" | "when";
  inputSchema?: Schema;
  outputSchema?: Schema;
};

export type Agent = { agentType: string; description: string; tools: Tool[]; examples?: string[] };

export type Agents = { agents: Agent[]; defaultAgentType?: string };

export type SessionStatus = "active" | "completed" | "failed" | "interrupted" | "paused";

export type RunError = { code: string; message: string; detail?: string };

export type Session = {
  sessionId: string;
  agentType: string;
  status: SessionStatus;
  metadata: Record<string, string>;
  parentSessionId?: string;
  rootSessionId?: string;
  error?: RunError;
  createdAt: number;
  updatedAt: number;
};

/** A call that waits for a person or a client. */
export type PendingCall = {
  toolCallId: string;
  toolName: string;
  kind: "client" | "approval";
  input: unknown;
  approvalId?: string;
  digest: string;
  runId: string;
  deadline?: number;
  /** The session that made the call. */
  sessionId: string;
  /** The session to which the answer is sent. */
  rootSessionId: string;
  createdAt: number;
};

/** An answer that no run has read yet. */
export type Answered = {
  toolCallId: string;
  sessionId: string;
  approvalId?: string;
  approved?: boolean;
  reason?: string;
  decidedBy?: string;
  answeredAt: number;
};

export type RunStatus = "running" | "completed" | "failed" | "interrupted" | `suspended_${string}`;

export type Status = {
  sessionId: string;
  agentType: string;
  status: SessionStatus;
  runId?: string;
  runStatus?: RunStatus;
  streamSequence: number;
  streamIncarnation?: number;
  error?: RunError;
  pending: PendingCall[];
  answered?: Answered[];
};

export type Run = {
  runId: string;
  trigger: string;
  turn: number;
  messages: number;
  stepCount: number;
  status: RunStatus;
  startedAt: number;
  endedAt?: number;
  completionReason?: string;
  error?: RunError;
  reason?: string;
};

export type Snapshot = {
  messages: UIMessage[];
  /** Whether there are older messages than these. */
  hasMore?: boolean;
  status: "active" | "paused" | "ended" | "failed";
  streamSequence: number;
  sessionId: string;
  agentType: string;
  runId?: string;
  pending?: PendingCall[];
};

export type UsageEntry = { id: string; runId: string; kind: string; name?: string; durationMs?: number };

export type Submitted = {
  status: "accepted" | "already_completed" | "late_answer_after_timeout";
  continuation: "new_run" | "caller_resumes" | "none";
};

/** What a sub-agent says and does, as a part of its parent's message. */
export type SubAgentData = {
  sessionId: string;
  agentType: string;
  toolCallId: string;
  status: "running" | "completed" | "failed";
  text: string;
  tools: { toolCallId: string; toolName: string; state: "running" | "waiting" | "completed" | "failed" }[];
};
