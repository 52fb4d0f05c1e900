import type { UIMessage } from "ai";
import { useRef } from "react";

/** How much of a message there is: it only grows while a message is told again from its beginning. */
function weight(message: UIMessage): number {
  let sum = 0;
  for (const part of message.parts) sum += 1 + ("text" in part ? part.text.length : 0);
  return sum;
}

/** Puts the last bubble that was shown in place of its replay, until that has caught up. */
export function steady(messages: UIMessage[], before: UIMessage | undefined): UIMessage[] {
  if (before?.role !== "assistant") return messages;
  const at = messages.findIndex((one) => one.id === before.id);
  const now = messages[at];
  if (!now) return messages.at(-1)?.role === "assistant" ? messages : [...messages, before];
  return weight(now) < weight(before) ? messages.with(at, before) : messages;
}

/** The messages without the flicker of a replay, which begins with an empty bubble. */
export function useSteady(messages: UIMessage[], replaying: boolean): UIMessage[] {
  const before = useRef<UIMessage | undefined>(undefined);
  const shown = replaying ? steady(messages, before.current) : messages;
  before.current = shown.at(-1);
  return shown;
}
