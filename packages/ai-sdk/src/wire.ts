/** What the chat routes of the server send and take: the types that are made from the server's, in terms of the AI SDK. */
import type { UIMessage } from 'ai';
import type { KeptData, PendingView, Snapshot as ServerSnapshot, SubagentData, TransientData } from './generated.js';

export type { PatchOperation, SubagentData } from './generated.js';

/** A call that waits for an answer: of a client, or for an approval. */
export type PendingCall = PendingView;

/**
 * The payloads of the `data-*` parts, by the name after `data-`. Those of `KeptData` stay in the message, those of
 * `TransientData` only reach `onData`. The tools of an agent may send others.
 */
export type HelixDataTypes = { [Name in keyof (KeptData & TransientData)]: (KeptData & TransientData)[Name] };

/** A message of a chat with Helix Agents. Its tools are `dynamic-tool` parts. */
export type HelixUIMessage = UIMessage<unknown, HelixDataTypes>;

/** A `data-*` part as `onData` gets it. */
export interface DataPart {
  type: string;
  id?: string;
  data: unknown;
}

/** Where a session stands: what a page shows before it follows the stream. The bubble in flight is left out. */
export type Snapshot<State = unknown> = Omit<ServerSnapshot, 'messages' | 'state'> & {
  messages: HelixUIMessage[];
  state: State | null;
};

/** The state of a sub-agent, as its bubble shows it. */
export type SubagentStatus = SubagentData['status'];

/** The body of an HTTP error. */
export interface ErrorBody {
  /** A sentence for the user. */
  error: string;
  /** What a developer needs. */
  detail?: string;
  code: string;
}
