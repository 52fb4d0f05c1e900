import type { PrepareReconnectToStreamRequest, PrepareSendMessagesRequest, UIMessage } from 'ai';

export interface PrepareHelixRequestOptions {
  /** The route of one session: `/api/chat/{sessionId}`, for sending and for reconnecting. */
  api: string;
  /** The `streamSequence` of the snapshot that the page was built from. */
  resumeFromSequence?: number;
  /** The bubble that was in flight. The server knows it by itself; the header is for logs. */
  existingMessageId?: string;
  /** More fields for the body. */
  body?: Record<string, unknown>;
}

/**
 * For `DefaultChatTransport`: sends to the single route of a session.
 *
 * It names no sequence: the stream of a message that is sent is always new.
 */
export function prepareHelixChatRequest<M extends UIMessage = UIMessage>(
  options: PrepareHelixRequestOptions,
): PrepareSendMessagesRequest<M> {
  return ({ id, messages, trigger, messageId, headers, credentials, body }) => ({
    api: options.api,
    headers,
    credentials,
    body: { ...options.body, ...body, id, messages, trigger, messageId },
  });
}

/** For `DefaultChatTransport`: reconnects by the same route, instead of `{api}/{id}/stream`. */
export function prepareHelixReconnectRequest(options: PrepareHelixRequestOptions): PrepareReconnectToStreamRequest {
  const { api, resumeFromSequence, existingMessageId } = options;
  return ({ headers, credentials }) => {
    const named = new Headers(headers);
    if (resumeFromSequence !== undefined) named.set('X-Resume-From-Sequence', String(resumeFromSequence));
    if (existingMessageId !== undefined) named.set('X-Existing-Message-Id', existingMessageId);
    return { api, credentials, headers: named };
  };
}
