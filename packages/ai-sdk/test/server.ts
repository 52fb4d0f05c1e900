/** A server with the chat routes for one session, that says what a test tells it to say. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { UIMessage } from 'ai';
import { onTestFinished } from 'vitest';

export type Chunk = { type: string; [field: string]: unknown };
export interface Seen {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  body: { id: string; messages: UIMessage[]; trigger: string; messageId?: string; agentType?: string; reason?: string };
}

interface Frame {
  id?: number;
  data: string;
}

export const text = (id: string, ...deltas: string[]): Chunk[][] => [
  [{ type: 'text-start', id }, { type: 'text-delta', id, delta: deltas[0] ?? '' }],
  ...deltas.slice(1).map((delta): Chunk[] => [{ type: 'text-delta', id, delta }]),
];
export const clientTool = (toolCallId: string, input: unknown = {}, toolName = 'pick_color'): Chunk[] => [
  { type: 'tool-input-available', toolCallId, toolName, input, dynamic: true },
];
export const approval = (toolCallId: string, approvalId: string): Chunk[] => [
  { type: 'tool-input-available', toolCallId, toolName: 'delete_file', input: {}, dynamic: true },
  { type: 'tool-approval-request', toolCallId, approvalId },
];

export class FakeServer {
  readonly seen: Seen[] = [];
  url = '';
  snapshot: object | null = null;
  withIds = true;
  /** What happens on each message or answer. */
  onPost: (server: FakeServer, request: Seen) => void = () => {};
  /** Refuses the next requests with this status. */
  refuse?: { status: number; body: string };
  private frames: Frame[] = [];
  private ended = true;
  private readonly readers = new Set<ServerResponse>();
  private sequence = 0;

  static async start(): Promise<FakeServer> {
    const server = new FakeServer();
    const http = createServer((request, response) => void server.handle(request, response));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    server.url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    onTestFinished(() => {
      http.closeAllConnections();
      http.close();
    });
    return server;
  }

  get posts(): Seen[] {
    return this.seen.filter(({ method, url }) => method === 'POST' && /\/chat$/.test(url));
  }

  get reconnects(): Seen[] {
    return this.seen.filter(({ url }) => url.endsWith('/stream'));
  }

  to(route: string): Seen[] {
    return this.seen.filter(({ url }) => url.split('?')[0]!.endsWith(route));
  }

  /** Sends chunks of the stream, each of which may be several frames, the last of which has the id. */
  push(...chunks: Chunk[][]): this {
    for (const chunk of chunks) {
      this.sequence += 1;
      chunk.forEach((frame, index) => {
        const isLast = index === chunk.length - 1 && this.withIds;
        this.emit({ data: JSON.stringify(frame), ...(isLast && { id: this.sequence }) });
      });
    }
    return this;
  }

  /** Sends the beginning of a chunk, without its last frame. */
  pushPart(...frames: Chunk[]): this {
    for (const frame of frames) for (const reader of this.readers) reader.write(write({ data: JSON.stringify(frame) }));
    return this;
  }

  step(...chunks: Chunk[][]): this {
    return this.push([{ type: 'start-step' }], ...chunks, [{ type: 'finish-step' }]);
  }

  end(): this {
    this.emit({ data: '{"type":"finish"}' });
    this.emit({ data: '[DONE]' });
    this.ended = true;
    for (const reader of this.readers) reader.end();
    this.readers.clear();
    return this;
  }

  /** Breaks the connections, or ends their bodies as if nothing were missing. */
  cut(cleanly = false): void {
    for (const reader of this.readers) cleanly ? reader.end() : reader.destroy();
    this.readers.clear();
  }

  private emit(frame: Frame): void {
    if (this.ended) this.frames = this.frames.filter(({ data }) => data !== '[DONE]' && !data.includes('"finish"'));
    this.ended = false;
    this.frames.push(frame);
    for (const reader of this.readers) reader.write(write(frame));
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const part of request) body += part;
    const seen = {
      method: request.method ?? '',
      url: request.url ?? '',
      headers: request.headers,
      body: body ? JSON.parse(body) : undefined,
    } as Seen;
    this.seen.push(seen);
    if (this.refuse) {
      response.writeHead(this.refuse.status).end(this.refuse.body);
    } else if (seen.url.includes('/snapshot')) {
      response.writeHead(this.snapshot ? 200 : 404).end(JSON.stringify(this.snapshot ?? NOT_FOUND));
    } else if (seen.url.endsWith('/interrupt')) {
      const accepted = !this.ended;
      if (accepted) this.end();
      response.end(JSON.stringify({ accepted }));
    } else if (seen.method === 'POST') {
      this.listen(response);
      const last = seen.body.messages.at(-1)!;
      if (last.role === 'user') {
        this.frames = [];
        this.emit({ data: `{"type":"start","messageId":"msg-${seen.body.messages.length}"}` });
      } else {
        response.write(write({ data: `{"type":"start","messageId":"${last.id}"}` }));
      }
      this.onPost(this, seen);
    } else if (this.frames.length === 0) {
      response.writeHead(204).end();
    } else {
      const after = Number(seen.headers['last-event-id'] ?? 0);
      const place = this.frames.findIndex(({ id }) => id === after);
      this.listen(response);
      for (const frame of this.frames.slice(place + 1)) response.write(write(frame));
      if (this.ended) response.end();
    }
  }

  private listen(response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'x-session-id': 's' });
    response.write(': hello\n\n');
    this.readers.add(response);
    response.on('close', () => this.readers.delete(response));
  }
}

const NOT_FOUND = { error: 'There is no such session.', detail: 'session s not found', code: 'NOT_FOUND' };
const write = ({ id, data }: Frame) => `${id === undefined ? '' : `id: ${id}\n`}data: ${data}\n\n`;
