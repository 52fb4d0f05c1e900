import { Chat } from '@ai-sdk/react';
import type { ChatTransport, UIMessage } from 'ai';
import { vi } from 'vitest';

/** The chat of the hooks without the hooks; `hidden` as `useChat` of version 3 makes it, which hides a property. */
export function newChat(
  transport: ChatTransport<UIMessage>,
  options: Partial<ConstructorParameters<typeof Chat<UIMessage>>[0]> & { hidden?: boolean } = {},
): Chat<UIMessage> {
  const { hidden, ...init } = options;
  const shown = hidden
    ? {
        sendMessages: (request: Parameters<typeof transport.sendMessages>[0]) => transport.sendMessages(request),
        reconnectToStream: (request: Parameters<typeof transport.reconnectToStream>[0]) =>
          transport.reconnectToStream(request),
      }
    : transport;
  return new Chat<UIMessage>({ id: 's', transport: shown, ...init });
}

export const wordsOf = (messages: readonly UIMessage[]): string[] =>
  messages.map((message) => message.parts.map((part) => (part.type === 'text' ? part.text : '')).join(''));

export const until = <T>(what: () => T): Promise<T> => vi.waitFor(what, { timeout: 5000, interval: 5 });
