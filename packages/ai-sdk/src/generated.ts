// Made from crates/wire by `HELIX_WRITE_TYPES=1 cargo test -p helix-agents-wire typescript`. Do not edit.

/** Any JSON value. */
export type JsonValue = unknown;

/** A change of a document: an operation of RFC 6902. */
export type PatchOperation = { op: 'add' | 'remove' | 'replace'; path: string; value?: unknown };

export type UiChunk = { "type": "start",
  /** The id of the message. */
  messageId: string, } | { "type": "finish",
  /** Why it ends. */
  finishReason?: FinishReason, } | { "type": "start-step", } | { "type": "finish-step", } | { "type": "error",
  /** A sentence that is safe to show to any user. */
  errorText: string, } | { "type": "text-start",
  /** The id of the block. */
  id: string, } | { "type": "text-delta",
  /** The id of the block. */
  id: string,
  /** The text to append. */
  delta: string, } | { "type": "text-end",
  /** The id of the block. */
  id: string, } | { "type": "reasoning-start",
  /** The id of the block. */
  id: string, } | { "type": "reasoning-delta",
  /** The id of the block. */
  id: string,
  /** The text to append. */
  delta: string, } | { "type": "reasoning-end",
  /** The id of the block. */
  id: string, } | { "type": "tool-input-start",
  /** The id of the call. */
  toolCallId: string,
  /** The name of the tool. */
  toolName: string,
  /** Always true: our tools are not known when a front end is built. */
  dynamic: boolean, } | { "type": "tool-input-delta",
  /** The id of the call. */
  toolCallId: string,
  /** The JSON text to append. */
  inputTextDelta: string, } | { "type": "tool-input-available",
  /** The id of the call. */
  toolCallId: string,
  /** The name of the tool. */
  toolName: string,
  /** The arguments. */
  input: JsonValue,
  /** Whether the server runs it, without asking anybody. */
  providerExecuted?: boolean,
  /** Always true. */
  dynamic: boolean, } | { "type": "tool-input-error",
  /** The id of the call. */
  toolCallId: string,
  /** The name of the tool. */
  toolName: string,
  /** The arguments. */
  input: JsonValue,
  /** The reason. */
  errorText: string,
  /** Whether the server would have run it. */
  providerExecuted?: boolean,
  /** Always true. */
  dynamic: boolean, } | { "type": "tool-approval-request",
  /** The id of the request, which the answer repeats. */
  approvalId: string,
  /** The id of the call. */
  toolCallId: string, } | { "type": "tool-output-available",
  /** The id of the call. */
  toolCallId: string,
  /** The result. */
  output: JsonValue,
  /** Whether the server ran it. */
  providerExecuted?: boolean,
  /** Always true. */
  dynamic: boolean, } | { "type": "tool-output-error",
  /** The id of the call. */
  toolCallId: string,
  /** The reason. */
  errorText: string,
  /** Whether the server ran it. */
  providerExecuted?: boolean,
  /** Always true. */
  dynamic: boolean, } | { "type": "tool-output-denied",
  /** The id of the call. */
  toolCallId: string, } | DataChunk;

export type DataChunk = {
  /** `data-` and the name. */
  type: `data-${string}`,
  /** A later chunk of the same type and id replaces this one; without it each one is kept. */
  id?: string,
  /** The data. */
  data: JsonValue,
  /** Whether it is told and not kept in the message. */
  transient?: boolean, };

export type FinishReason = "stop" | "tool-calls" | "error" | "other";

export type UiMessage = {
  /** The id of the message: the same in the stream, in a snapshot and in the history. */
  id: string,
  /** Who wrote it. */
  role: UiRole,
  /** Its content, in order. */
  parts: Array<UiPart>,
  /** Free-form data of the message. */
  metadata?: JsonValue, };

export type UiRole = "system" | "user" | "assistant";

export type UiPart = { "type": "step-start", } | { "type": "text",
  /** The text. */
  text: string,
  /** `done` in an assistant message that is complete. */
  state?: string, } | { "type": "reasoning",
  /** The text. */
  text: string,
  /** `done` in an assistant message that is complete. */
  state?: string, } | { "type": "file",
  /** The media type, like `image/png`. */
  mediaType: string,
  /** A data URL, or an address. */
  url: string,
  /** The name to show. */
  filename?: string, } | { "type": "dynamic-tool",
  /** The name of the tool. */
  toolName: string,
  /** The id of the call. */
  toolCallId: string,
  /** How far it is. */
  state: ToolState,
  /** The arguments. */
  input: JsonValue,
  /** The result. */
  output?: JsonValue,
  /** Why there is no result. */
  errorText?: string,
  /** Whether the server runs it. */
  providerExecuted?: boolean,
  /** The request for approval, and its answer. */
  approval?: ToolApproval, } | DataPart;

export type DataPart = {
  /** `data-` and the name. */
  type: `data-${string}`,
  /** The id by which it is replaced. */
  id?: string,
  /** The data. */
  data: JsonValue, };

export type ToolState = "input-streaming" | "input-available" | "approval-requested" | "approval-responded" | "output-available" | "output-error" | "output-denied";

export type ToolApproval = {
  /** The id of the request. */
  id: string,
  /** The decision, once there is one. */
  approved?: boolean,
  /** The reason for the decision. */
  reason?: string, };

export type UiMessages = {
  /** The messages of the turns on this page, oldest first. */
  messages: Array<UiMessage>,
  /** The number of turns that there are. */
  total: number,
  /** Whether later turns follow. */
  hasMore: boolean, };

export type Snapshot = {
  /** The session. */
  sessionId: string,
  /** Its agent. */
  agentType: string,
  /** Its latest run. */
  runId?: string,
  /** Its state. */
  state: JsonValue,
  /** Its messages, oldest first. */
  messages: Array<UiMessage>,
  /** Whether there are older messages than these. */
  hasMore: boolean,
  /** Where a stream goes on. */
  streamSequence: number,
  /** Whether there is a stream to read. */
  status: SnapshotStatus,
  /** Its latest checkpoint. */
  checkpointId: string | null,
  /** When it was taken, in milliseconds since 1970. */
  timestamp: number,
  /** Why the last turn failed. */
  error?: SnapshotError,
  /** The calls of its tree that wait for somebody. */
  pending: Array<PendingView>, };

export type SnapshotStatus = "active" | "paused" | "ended" | "failed";

export type SnapshotError = {
  /** A sentence that is safe to show to any user. */
  error: string,
  /** The machine-readable code. */
  code: string, };

export type PendingView = {
  /** The id of the call. */
  toolCallId: string,
  /** The name of the tool. */
  toolName: string,
  /** Who must answer it. */
  kind: 'client' | 'approval',
  /** The arguments. */
  input: JsonValue,
  /** The id of the request for approval. */
  approvalId?: string,
  /** The digest of the tool and its arguments. */
  digest: string,
  /** The run that made the call. */
  runId: string,
  /** When it times out, in milliseconds since 1970. */
  deadline?: number,
  /** The session that made the call. */
  sessionId: string,
  /** The session to which the answer is sent. */
  rootSessionId: string,
  /** When it was made, in milliseconds since 1970. */
  createdAt: number, };

export type SubagentTool = { toolCallId: string, toolName: string, state: 'running' | 'waiting' | 'completed' | 'failed', };

export type StatePatchData = { sequence: number, patches: Array<PatchOperation>, };

export type SubagentData = { sessionId: string, agentType: string,
  /** The call that started it; absent where that was in an earlier turn. */
  toolCallId?: string, status: 'running' | 'completed' | 'failed', text: string, tools: Array<SubagentTool>, };

export type ApprovalData = { toolCallId: string, approvalId: string, approved: boolean, reason?: string, decidedBy?: string, };

export type ResumeRejectedData = { toolCallIds: Array<string>, reason: string, code: string, };

export type RunStartedData = { runId: string, turn: number, trigger: string, };

export type RunInterruptedData = { reason?: string, };

export type RunResumedData = Record<string, never>;

export type RunPausedData = { status: string, toolCallIds: Array<string>, };

export type CheckpointCreatedData = { checkpointId: string, };

export type StepCommittedData = { messageCount: number, };

export type StepDiscardedData = { reason: string, };

export type StreamResyncData = { reason: string, };

export type ExecutorSupersededData = Record<string, never>;

export type StateConflictData = { conflicts: Array<unknown>, };

export type SubagentStartData = { toolCallId: string, agentType: string, sessionId: string, };

export type SubagentEndData = { toolCallId: string, agentType: string, sessionId: string, success: boolean, };

export type ToolTimingData = { toolCallId: string, durationMs: number, };

export type ErrorData = { errorText: string, code: string, recoverable: boolean, };

/** Our data that stay in the message, by the name after `data-`. */
export type KeptData = {
  'state-patch': StatePatchData;
  'subagent': SubagentData;
  'approval': ApprovalData;
  'resume-rejected': ResumeRejectedData;
  'output': unknown;
};

/** Our data that only `onData` is told, by the name after `data-`. */
export type TransientData = {
  'run-started': RunStartedData;
  'run-interrupted': RunInterruptedData;
  'run-resumed': RunResumedData;
  'run-paused': RunPausedData;
  'checkpoint-created': CheckpointCreatedData;
  'step-committed': StepCommittedData;
  'step-discarded': StepDiscardedData;
  'stream-resync': StreamResyncData;
  'executor-superseded': ExecutorSupersededData;
  'state-conflict': StateConflictData;
  'subagent-start': SubagentStartData;
  'subagent-end': SubagentEndData;
  'tool-timing': ToolTimingData;
  'error': ErrorData;
  'pending': Array<PendingView>;
};
