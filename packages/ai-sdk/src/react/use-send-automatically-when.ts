import { useRef } from 'react';
import { createHelixSendAutomaticallyWhen, type SendAutomaticallyWhen } from '../answers.js';

/** `createHelixSendAutomaticallyWhen` that stays the same over all renders of a session. */
export function useHelixSendAutomaticallyWhen(
  sessionId?: string,
  isOwn?: (toolCallId: string) => boolean,
): SendAutomaticallyWhen {
  const made = useRef<{ sessionId?: string; predicate: SendAutomaticallyWhen }>(undefined);
  if (!made.current || made.current.sessionId !== sessionId) {
    made.current = { sessionId, predicate: createHelixSendAutomaticallyWhen(sessionId, isOwn) };
  }
  return made.current.predicate;
}
