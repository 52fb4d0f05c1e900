import { isToolUIPart, type DynamicToolUIPart, type ToolUIPart, type UIMessage } from 'ai';
import type { PendingCall } from './wire.js';

export type ToolPart = ToolUIPart | DynamicToolUIPart;

/** Returns the tool parts of the last bubble, if the assistant has the last word. */
export function lastToolParts(messages: readonly UIMessage[], onlyLastStep = false): ToolPart[] {
  const message = messages.at(-1);
  if (message?.role !== 'assistant') return [];
  const start = onlyLastStep ? message.parts.findLastIndex((part) => part.type === 'step-start') + 1 : 0;
  return message.parts.slice(start).filter(isToolUIPart);
}

/** Whether this part waits for the client or for an approval. */
export function isOpen(part: ToolPart): boolean {
  if (part.state === 'approval-requested') return true;
  return !part.providerExecuted && (part.state === 'input-available' || part.state === 'input-streaming');
}

/**
 * Returns the call that waits and that a part shows. An approval is known by its own id. A call of a sub-agent whose id
 * another call of the message has is shown under the id of its session, too.
 */
export function pendingOf<Call extends Pick<PendingCall, 'toolCallId' | 'sessionId' | 'approvalId'>>(
  part: Pick<ToolPart, 'toolCallId' | 'approval'>,
  pending: readonly Call[],
): Call | undefined {
  const { toolCallId, approval } = part;
  if (approval !== undefined) return pending.find((call) => call.approvalId === approval.id);
  const inSession = pending.find((call) => toolCallId === `${call.sessionId}/${call.toolCallId}`);
  return inSession ?? pending.find((call) => call.toolCallId === toolCallId);
}

function isAnswer(part: ToolPart): boolean {
  if (part.state === 'approval-responded') return true;
  if (part.providerExecuted) return false;
  return part.state === 'output-error' || (part.state === 'output-available' && part.preliminary !== true);
}

/** Decides when the answers to tool calls are sent. */
export interface SendAutomaticallyWhen {
  (options: { messages: UIMessage[] }): boolean;
  /** Lets the same answers be sent again, after a request that failed. */
  forget(): void;
}

/**
 * Creates the `sendAutomaticallyWhen` of a chat: true once every call of the last step has its answer, be it an output
 * of a client or a decision on an approval, and at least one of the answers has not been sent yet. So the same answers
 * are sent once, whatever the server replies. An answer that the server asks for again may be sent again.
 *
 * With `isOwn`, outputs count only if they were given here: the server, too, ends calls that it no longer waits for.
 */
export function createHelixSendAutomaticallyWhen(
  _sessionId?: string,
  isOwn: (toolCallId: string) => boolean = () => true,
): SendAutomaticallyWhen {
  const sent = new Set<string>();
  const decide = ({ messages }: { messages: UIMessage[] }) => {
    const parts = lastToolParts(messages, true);
    const open = parts.filter(isOpen);
    for (const part of open) sent.delete(part.toolCallId);
    if (open.length > 0) return false;
    const fresh = parts.filter(
      (part) =>
        isAnswer(part) && !sent.has(part.toolCallId) && (part.state === 'approval-responded' || isOwn(part.toolCallId)),
    );
    for (const part of fresh) sent.add(part.toolCallId);
    return fresh.length > 0;
  };
  return Object.assign(decide, { forget: () => sent.clear() });
}
