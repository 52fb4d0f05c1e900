/** What the chat routes of the server send and take. All of it stands here. Times are milliseconds since 1970. */
import type { UIMessage } from 'ai';

/** A call that waits for an answer: of a client, or for an approval. */
export interface PendingCall {
  toolCallId: string;
  toolName: string;
  kind: 'client' | 'approval';
  input: unknown;
  /** What an approval has to name. */
  approvalId?: string;
  digest: string;
  runId: string;
  /** After this time an answer comes too late. */
  deadline?: number;
  /** The session that made the call: the chat's own, or that of a sub-agent. */
  sessionId: string;
  /** The session that takes the answer. */
  rootSessionId: string;
  createdAt?: number;
}

/** A change of the state: an operation of RFC 6902. */
export interface PatchOperation {
  op: 'add' | 'remove' | 'replace' | 'move' | 'copy' | 'test';
  path: string;
  from?: string;
  value?: unknown;
}

/** What a sub-agent says and does. */
export interface SubagentData {
  sessionId: string;
  agentType: string;
  /** The call of the parent that started it. */
  toolCallId: string;
  status: 'running' | 'completed' | 'failed';
  text: string;
  tools: { toolCallId: string; toolName: string; state: 'running' | 'waiting' | 'completed' | 'failed' }[];
}

/**
 * The payloads of the `data-*` parts, by the name after `data-`. The first four are kept in the message, the rest
 * only reaches `onData`. The tools of an agent may send others.
 */
export type HelixDataTypes = {
  'state-patch': { sequence: number; patches: PatchOperation[] };
  subagent: SubagentData;
  output: unknown;
  'resume-rejected': { toolCallIds: string[]; reason: string; code: string };

  'run-started': { runId: string; turn: number };
  'run-interrupted': { reason?: string };
  'run-resumed': Record<string, never>;
  'run-paused': { status: string; toolCallIds: string[] };
  'checkpoint-created': { checkpointId: string };
  'step-committed': { messageCount: number };
  'step-discarded': { reason: string };
  'stream-resync': { reason: string };
  'executor-superseded': Record<string, never>;
  'state-conflict': { conflicts: unknown };
  'subagent-start': Record<string, unknown>;
  'subagent-end': Record<string, unknown>;
  error: { errorText: string; code: string; recoverable: boolean };
  pending: PendingCall[];
};

/** A message of a chat with Helix Agents. Its tools are `dynamic-tool` parts. */
export type HelixUIMessage = UIMessage<unknown, HelixDataTypes>;

/** A `data-*` part as `onData` gets it. */
export interface DataPart {
  type: string;
  id?: string;
  data: unknown;
}

/** Where a session stands: what a page shows before it follows the stream. */
export interface Snapshot<State = unknown> {
  /** All bubbles but the one in flight, which the stream brings as a whole. */
  messages: HelixUIMessage[];
  status: 'active' | 'paused' | 'ended' | 'failed';
  streamSequence: number;
  state: State | null;
  checkpointId: string | null;
  timestamp: number;
  sessionId: string;
  agentType: string;
  runId?: string;
  error?: { error: string; code: string };
  pending: PendingCall[];
}

/** The body of an HTTP error. */
export interface ErrorBody {
  /** A sentence for the user. */
  error: string;
  /** What a developer needs. */
  detail?: string;
  code: string;
}
