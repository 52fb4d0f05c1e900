import { DefaultChatTransport, type ChatTransport, type UIMessage, type UIMessageChunk } from 'ai';
import { HelixHttpError } from './errors.js';
import { LOST, readFrames } from './frames.js';
import type { Snapshot } from './wire.js';

type Headers = Record<string, string>;

export interface HelixChatTransportOptions {
  /** Where the chat routes are: the requests go to `{endpoint}/chat`. Default: `/api`. */
  endpoint?: string;
  /** The session, where it is not the id of the chat. */
  sessionId?: string;
  /** The agent of a new session. Default: that of the server. */
  agentType?: string;
  headers?: Headers | (() => Headers | Promise<Headers>);
  /** More fields for the body of each message. */
  body?: Record<string, unknown>;
  credentials?: RequestCredentials;
  fetch?: typeof fetch;
}

type Send<M extends UIMessage> = Parameters<ChatTransport<M>['sendMessages']>[0];
type Reconnect<M extends UIMessage> = Parameters<ChatTransport<M>['reconnectToStream']>[0];

/** What is known of the stream of a chat in this page. */
interface Link {
  /** The id of the last chunk that the chat has seen. */
  cursor?: string;
  /** Whether the chat keeps the state of a stream that was cut off, and can take the rest of it. */
  lost: boolean;
  /** Whether the server has sent ids. */
  hasIds: boolean;
}

/**
 * The transport of the AI SDK, over the chat routes of a server. It names the last chunk that it has seen when it
 * reconnects after a lost connection, so that the server sends the rest only.
 *
 * Make one for each chat that is mounted. It also has the routes that the AI SDK does not know.
 */
export class HelixChatTransport<M extends UIMessage = UIMessage> implements ChatTransport<M> {
  readonly resumeStreamIsReplay = true;
  private readonly links = new Map<string, Link>();

  constructor(private readonly options: HelixChatTransportOptions = {}) {}

  async sendMessages(request: Send<M>): Promise<ReadableStream<UIMessageChunk>> {
    const link = this.link(request.chatId);
    // The chat forgets a stream that was cut off when it sends, and its answers continue the bubble that it has.
    link.lost = false;
    if (request.messages.at(-1)?.role !== 'assistant') link.cursor = undefined;
    return this.stock(link).sendMessages(request);
  }

  async reconnectToStream(request: Reconnect<M>): Promise<ReadableStream<UIMessageChunk> | null> {
    const link = this.link(request.chatId);
    // Whatever else the chat has seen is sent again.
    if (!link.lost) link.cursor = undefined;
    return this.stock(link).reconnectToStream(request);
  }

  /** Stops the run of the session. A closed connection alone stops nothing. Returns whether there was one to stop. */
  async interrupt(chatId: string, reason?: string): Promise<boolean> {
    const response = await this.request(`${this.url(chatId)}/interrupt`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(reason === undefined ? {} : { reason }),
    });
    if (response.status === 404) return false;
    if (!response.ok) throw await HelixHttpError.fromResponse(response);
    return ((await response.json()) as { accepted: boolean }).accepted;
  }

  /** Returns where the session stands, or null when there is none; without its messages where nobody needs them. */
  async snapshot<State = unknown>(chatId: string, without?: 'messages'): Promise<Snapshot<State> | null> {
    const query = without === undefined ? '' : '?messages=false';
    return readSnapshot(await this.request(`${this.url(chatId)}/snapshot${query}`));
  }

  /** Forgets what a chat has seen: a chat that is mounted anew has to be sent the whole bubble. */
  forget(chatId: string): void {
    this.links.delete(chatId);
  }

  private get base(): string {
    return `${(this.options.endpoint ?? '/api').replace(/\/$/, '')}/chat`;
  }

  private sessionId(chatId: string): string {
    return this.options.sessionId ?? chatId;
  }

  private url(chatId: string): string {
    return `${this.base}/${encodeURIComponent(this.sessionId(chatId))}`;
  }

  private link(chatId: string): Link {
    const link = this.links.get(chatId) ?? { lost: false, hasIds: false };
    this.links.set(chatId, link);
    return link;
  }

  private async request(url: string, init: RequestInit = {}): Promise<Response> {
    const { headers, credentials, fetch = globalThis.fetch } = this.options;
    const own = typeof headers === 'function' ? await headers() : headers;
    return fetch(url, { credentials, ...init, headers: { ...own, ...(init.headers as Headers) } });
  }

  /** The transport of the AI SDK for one request. */
  private stock(link: Link): DefaultChatTransport<M> {
    const { agentType, headers, body, credentials } = this.options;
    const at = (headers?: HeadersInit) =>
      link.cursor === undefined ? headers : { ...(headers as Headers), 'Last-Event-ID': link.cursor };
    return new DefaultChatTransport<M>({
      api: this.base,
      headers,
      credentials,
      body: { ...(agentType !== undefined && { agentType }), ...body },
      fetch: (input, init) => this.fetch(link, input, init),
      prepareSendMessagesRequest: ({ id, messages, trigger, messageId, body, headers }) => ({
        body: { ...body, id: this.sessionId(id), messages, trigger, messageId },
        // Where a message goes on whose run goes on.
        headers: at(headers),
      }),
      prepareReconnectToStreamRequest: ({ id, headers }) => ({
        api: `${this.url(id)}/stream`,
        headers: at(headers),
      }),
    });
  }

  private async fetch(link: Link, input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
    const { fetch = globalThis.fetch } = this.options;
    const sends = init?.method === 'POST';
    let response: Response;
    try {
      response = await fetch(input, init);
    } catch (error) {
      if (init?.signal?.aborted) throw error;
      if (sends) link.lost = true;
      throw new TypeError(LOST, { cause: error });
    }
    if (!response.ok) throw await HelixHttpError.fromResponse(response);
    link.lost = false;
    if (!response.body || response.status === 204) return response;
    link.hasIds ||= response.headers.has('x-session-id');
    const frames = readFrames(
      response.body,
      {
        hold: () => link.hasIds,
        onId: (id) => {
          link.hasIds = true;
          link.cursor = id;
        },
        onEnd: (ending) => {
          link.lost = ending === 'lost';
        },
      },
      init?.signal,
    );
    return new Response(frames, { status: response.status, headers: response.headers });
  }
}

/** Creates a transport over the chat routes of a server. */
export function createHelixChatTransport<M extends UIMessage = UIMessage>(
  options?: HelixChatTransportOptions,
): HelixChatTransport<M> {
  return new HelixChatTransport<M>(options);
}

export async function readSnapshot<State = unknown>(response: Response): Promise<Snapshot<State> | null> {
  if (response.status === 404) return null;
  if (!response.ok) throw await HelixHttpError.fromResponse(response);
  return (await response.json()) as Snapshot<State>;
}
