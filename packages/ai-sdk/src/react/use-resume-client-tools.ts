import { getToolName, isToolUIPart, type UIMessage } from 'ai';
import type { UseChatHelpers } from '@ai-sdk/react';
import { useEffect, useRef } from 'react';
import { lastToolParts, pendingOf } from '../answers.js';
import type { PendingCall } from '../wire.js';
import { useLatest } from './latest.js';

export interface ClientToolContext {
  toolCallId: string;
  toolName: string;
  /** Aborted when nobody waits for the result any more: another session, an answer elsewhere, the page is left. */
  abortSignal: AbortSignal;
}

/** Performs calls of one client tool. What it returns is the output of the call. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- the input is what the tool's schema says
export type ClientToolHandler = (input: any, context: ClientToolContext) => unknown;

export type ClientToolHandlers = Record<string, ClientToolHandler>;

export type OnClientToolError = (
  error: unknown,
  context: { toolCallId: string; toolName: string; input: unknown },
) => void;

export interface UseResumeClientToolsOptions<M extends UIMessage> {
  chat: Pick<UseChatHelpers<M>, 'id' | 'messages' | 'status' | 'addToolOutput'>;
  toolHandlers?: ClientToolHandlers;
  onError?: OnClientToolError;
  /** The calls that wait, from `data-pending` or the snapshot: one whose deadline has passed is not performed. */
  pending?: readonly PendingCall[];
}

type Answer = { state: 'output-available'; output: unknown } | { state: 'output-error'; errorText: string };

interface Performance {
  controller: AbortController;
  answer?: Answer;
}

/** The server takes no longer error than 8 KB. */
const MAX_ERROR = 2000;

/**
 * Performs the calls of client tools that the chat shows as waiting, those of before a reload, too. Handlers run side by
 * side, once for each call. What one throws goes to `onError` and to the server, as the error of the call.
 *
 * A handler starts when the stream is at rest: only then it is sure that the call still waits.
 */
export function useResumeClientTools<M extends UIMessage>(options: UseResumeClientToolsOptions<M>): void {
  const { chat } = options;
  const { id, messages, status } = chat;
  const performances = useRef(new Map<string, Performance>());
  const latest = useLatest(options);

  useEffect(
    () => () => {
      for (const { controller } of performances.current.values()) controller.abort();
      performances.current = new Map();
    },
    [id],
  );

  useEffect(() => {
    // A stream that is read may still replay a call that has its answer. A message of the user abandons all calls.
    if (status !== 'ready' && messages.at(-1)?.role !== 'user') return;
    const waiting = lastToolParts(messages).filter((part) => part.state === 'input-available' && !part.providerExecuted);
    const known = new Set(messages.flatMap((message) => message.parts.filter(isToolUIPart)).map((part) => part.toolCallId));
    for (const [toolCallId, { controller }] of performances.current) {
      // One that no message has is about to be replayed.
      if (known.has(toolCallId) && !waiting.some((part) => part.toolCallId === toolCallId)) controller.abort();
    }
    // Later, so that the second of the two effects of strict mode is the one that starts.
    const timer = setTimeout(() => {
      for (const part of waiting) {
        const known = performances.current.get(part.toolCallId);
        if (known?.answer) give(part.toolCallId, getToolName(part), known);
        else if (!known || known.controller.signal.aborted) void perform(part.toolCallId, getToolName(part), part.input);
      }
    }, 0);
    return () => clearTimeout(timer);
  }, [id, messages, status]);

  const give = (toolCallId: string, tool: string, { answer }: Performance) => {
    const { addToolOutput } = latest.current.chat;
    void addToolOutput({ tool, toolCallId, ...answer } as Parameters<typeof addToolOutput>[0]);
  };

  const perform = async (toolCallId: string, toolName: string, input: unknown) => {
    const { toolHandlers = {}, pending } = latest.current;
    const handler = Object.hasOwn(toolHandlers, toolName) ? toolHandlers[toolName] : undefined;
    const deadline = pendingOf({ toolCallId, approval: undefined }, pending ?? [])?.deadline;
    if (!handler || (deadline !== undefined && deadline <= Date.now())) return;

    const controller = new AbortController();
    const performance: Performance = { controller };
    performances.current.set(toolCallId, performance);
    const context = { toolCallId, toolName, abortSignal: controller.signal };
    try {
      const output = await handler(input, context);
      performance.answer = { state: 'output-available', output: output === undefined ? null : output };
    } catch (error) {
      if (controller.signal.aborted) return;
      const text = error instanceof Error ? error.message : String(error);
      performance.answer = { state: 'output-error', errorText: text.slice(0, MAX_ERROR) };
      latest.current.onError?.(error, { toolCallId, toolName, input });
    }
    if (!controller.signal.aborted) give(toolCallId, toolName, performance);
  };
}
