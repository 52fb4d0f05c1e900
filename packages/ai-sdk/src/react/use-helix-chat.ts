import { useChat, type Chat, type UseChatHelpers } from '@ai-sdk/react';
import type { ChatTransport, UIMessage } from 'ai';
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { isOpen, lastToolParts, pendingOf } from '../answers.js';
import { HelixStreamError } from '../errors.js';
import { HelixChatTransport, type HelixChatTransportOptions } from '../transport.js';
import type { DataPart, HelixDataTypes, HelixUIMessage, PendingCall, Snapshot } from '../wire.js';
import { useDataParts } from './data.js';
import { useLatest } from './latest.js';
import { useResumeClientTools, type ClientToolHandlers, type OnClientToolError } from './use-resume-client-tools.js';
import { useHelixSendAutomaticallyWhen } from './use-send-automatically-when.js';

// The hooks bring an `ai` of their own, whose types count here.
type ChatInit<M extends UIMessage> = ConstructorParameters<typeof Chat<M>>[0];

export interface UseHelixChatOptions<M extends UIMessage = HelixUIMessage>
  extends Omit<ChatInit<M>, 'transport'>,
    Pick<HelixChatTransportOptions, 'endpoint' | 'agentType' | 'headers' | 'fetch'> {
  /** Instead of one over `endpoint`. Of any other than a `HelixChatTransport`, `endpoint` must name the server too. */
  transport?: ChatTransport<M>;
  /** Whether to follow a run in progress at once, when the messages are there already. */
  resume?: boolean;
  /** Performs calls of client tools, by the name of the tool. Tools that are not here wait for `addToolOutput`. */
  toolHandlers?: ClientToolHandlers;
  onClientToolError?: OnClientToolError;
  /** The calls that wait, as the snapshot has them. */
  pending?: readonly PendingCall[];
  /** Milliseconds between looks at whether others have answered what the chat waits for; false for none. Default 1000. */
  pollAnswers?: number | false;
  experimental_throttle?: number;
}

export interface HelixChat<M extends UIMessage = HelixUIMessage> extends Omit<UseChatHelpers<M>, 'stop'> {
  /** Stops the run, and closes the stream. */
  stop: () => Promise<void>;
  /** Closes the stream; the run goes on, and `resumeStream` follows it again. */
  closeStream: () => Promise<void>;
  /** After an error: follows the run again, sends answers again, or asks again. */
  retry: () => Promise<void>;
  /** Allows the call that waits, which `id` names by its approval or by itself. */
  approve: (id: string) => Promise<void>;
  /** Refuses the call that waits. The model reads the reason. */
  deny: (id: string, reason?: string) => Promise<void>;
  /** The calls that wait, with their deadlines. */
  pending: readonly PendingCall[];
  /** The last data parts, for the hooks that take `data`. */
  data: readonly DataPart[];
  /** Loads where the session stands. Null when there is no such session. */
  loadSnapshot: () => Promise<Snapshot | null>;
}

const NONE: readonly PendingCall[] = [];
const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/**
 * `useChat` for an agent whose run pauses for client tools and approvals, outlives the page, and stops when told.
 */
export function useHelixChat<M extends UIMessage = HelixUIMessage>(options: UseHelixChatOptions<M> = {}): HelixChat<M> {
  const {
    transport: given,
    endpoint,
    agentType,
    headers,
    fetch,
    toolHandlers,
    onClientToolError,
    pending: known,
    pollAnswers = 1000,
    ...rest
  } = options;
  const latest = useLatest({ agentType, headers, fetch, onData: options.onData });

  const routes = useMemo(() => {
    if (given instanceof HelixChatTransport) return given as HelixChatTransport<M>;
    return new HelixChatTransport<M>({
      endpoint,
      body: {
        get agentType() {
          return latest.current.agentType;
        },
      },
      headers: async () => {
        const { headers } = latest.current;
        return (typeof headers === 'function' ? await headers() : headers) ?? {};
      },
      fetch: (...request) => (latest.current.fetch ?? globalThis.fetch)(...request),
    });
  }, [given, endpoint]);
  const { data, onData } = useDataParts();

  // A chat that is mounted anew has seen nothing. Before `useChat`, whose effect may reconnect.
  useEffect(() => {
    if (options.id !== undefined) routes.forget(options.id);
  }, [routes, options.id]);

  const failure = useRef<HelixStreamError>(undefined);
  const isLost = useRef(false);
  const own = useRef(new Set<string>());
  const predicate = useHelixSendAutomaticallyWhen(options.id, (toolCallId) => own.current.has(toolCallId));
  const [pending, setPending] = useState<readonly PendingCall[]>();
  const isTold = useRef(false);
  const chat = useChat<M>({
    ...rest,
    transport: given ?? routes,
    sendAutomaticallyWhen: options.sendAutomaticallyWhen ?? predicate,
    onData: (part) => {
      if (part.type === 'data-pending') {
        isTold.current = true;
        setPending(part.data as PendingCall[]);
      }
      if (part.type === 'data-error') {
        const error = part.data as HelixDataTypes['error'];
        failure.current = HelixStreamError.fromEvent(error);
        if (!error.recoverable) setPending([]);
      }
      onData(part);
      latest.current.onData?.(part);
    },
    onFinish: (event) => {
      isLost.current = event.isDisconnect;
      // Each stream that ends with a pause tells what waits.
      if (!isTold.current && !event.isDisconnect && !event.isError && !event.isAbort) setPending([]);
      isTold.current = false;
      options.onFinish?.(event);
    },
  });
  const { id, messages, status } = chat;
  const current = useLatest(chat);

  useEffect(() => () => setPending(undefined), [id]);

  const addToolOutput = useCallback<typeof chat.addToolOutput>(
    (output) => {
      own.current.add(output.toolCallId);
      return current.current.addToolOutput(output);
    },
    [current],
  );
  const waiting = pending ?? known ?? NONE;
  useResumeClientTools<M>({ chat: { ...chat, addToolOutput }, toolHandlers, onError: onClientToolError, pending: waiting });

  const loadSnapshot = useCallback(async () => {
    const snapshot = await routes.snapshot(id);
    setPending(snapshot?.pending ?? []);
    return snapshot;
  }, [routes, id]);

  const stop = useCallback(async () => {
    const wasSubmitted = current.current.status === 'submitted';
    const closed = current.current.stop();
    // A message that has just been sent may reach the server after the request to stop.
    if (!(await routes.interrupt(id)) && wasSubmitted) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      await routes.interrupt(id);
    }
    await closed;
  }, [current, routes, id]);

  const retry = useCallback(async () => {
    const { clearError, resumeStream, sendMessage, regenerate, messages } = current.current;
    clearError();
    if (isLost.current) return resumeStream();
    predicate.forget();
    return predicate({ messages }) ? sendMessage() : regenerate();
  }, [current, predicate]);

  const decide = useCallback(
    async (id: string, approved: boolean, reason?: string) => {
      const parts = lastToolParts(current.current.messages);
      const part = parts.find(({ toolCallId, approval }) => approval?.id === id || toolCallId === id);
      if (part?.state !== 'approval-requested') throw new Error(`no approval waits for an answer: ${id}`);
      await current.current.addToolApprovalResponse({ id: part.approval.id, approved, reason });
    },
    [current],
  );

  // Others may answer: another tab, another person. A paused stream has ended, so the page has to look.
  const open = status === 'ready' ? lastToolParts(messages).filter(isOpen) : [];
  const openIds = open.map((part) => part.toolCallId).join(' ');
  useEffect(() => {
    if (openIds === '' || pollAnswers === false) return;
    let over = false;
    let looking = false;
    const timer = setInterval(async () => {
      if (looking || document.visibilityState !== 'visible') return;
      looking = true;
      const snapshot = await routes.snapshot(id, 'messages').catch(() => undefined);
      looking = false;
      if (over || !snapshot) return;
      setPending((pending) => (isSame(pending, snapshot.pending) ? pending : snapshot.pending));
      const waiting = lastToolParts(current.current.messages).filter(isOpen);
      if (waiting.every((part) => pendingOf(part, snapshot.pending))) return;
      over = true;
      await current.current.resumeStream();
    }, pollAnswers);
    return () => {
      over = true;
      clearInterval(timer);
    };
  }, [openIds, pollAnswers, routes, id, current]);

  const typed = failure.current?.message === chat.error?.message ? failure.current : undefined;
  return {
    ...chat,
    error: chat.error && (typed ?? chat.error),
    addToolOutput,
    addToolResult: addToolOutput,
    stop,
    closeStream: chat.stop,
    retry,
    approve: useCallback((id) => decide(id, true), [decide]),
    deny: useCallback((id, reason) => decide(id, false, reason), [decide]),
    pending: waiting,
    data,
    loadSnapshot,
  };
}
