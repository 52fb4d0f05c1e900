// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { StrictMode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import { HelixHttpError, HelixStreamError } from '../src/client.js';
import { useHelixChat, type ClientToolContext, type UseHelixChatOptions } from '../src/react.js';
import { until, wordsOf } from './chat.js';
import { approval, clientTool, FakeServer, text, type Chunk } from './server.js';

afterEach(cleanup);

const render = (options: UseHelixChatOptions) =>
  renderHook((options: UseHelixChatOptions) => useHelixChat(options), {
    initialProps: { id: 's', pollAnswers: false, ...options },
    wrapper: StrictMode,
  });

/** Asks on the first message, and says `Done.` on the answers. */
const asks =
  (...chunks: Chunk[][]) =>
  (server: FakeServer) => {
    if (server.posts.length === 1) server.step(...chunks).end();
    else server.step(...text('t', 'Done.'), [{ type: 'text-end', id: 't' }]).end();
  };

const pause = (ms = 60) => act(() => new Promise((resolve) => setTimeout(resolve, ms)));
const lastParts = (server: FakeServer) => server.posts.at(-1)!.body.messages.at(-1)!.parts;

// proves: RCT-02
test('handlers of client tools run side by side, each call once, and their outputs are sent once', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(clientTool('a', { n: 1 }), clientTool('b', { n: 2 }));
  const release: ((color: string) => void)[] = [];
  const pick_color = vi.fn((_input: unknown, _context: ClientToolContext) => new Promise((resolve) => release.push(resolve)));
  const { result } = render({ endpoint: server.url, toolHandlers: { pick_color } });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(pick_color).toHaveBeenCalledTimes(2));
  expect(pick_color.mock.calls.map(([input]) => input)).toEqual([{ n: 1 }, { n: 2 }]);
  // A replay of the bubble starts nothing twice.
  await act(() => result.current.resumeStream());
  await pause();
  expect(pick_color).toHaveBeenCalledTimes(2);
  release[1]!('blue');
  await pause();
  expect(server.posts).toHaveLength(1);
  release[0]!('red');
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  await pause();
  expect(server.posts).toHaveLength(2);
  expect(lastParts(server)).toMatchObject([
    {},
    { toolCallId: 'a', state: 'output-available', output: 'red' },
    { toolCallId: 'b', state: 'output-available', output: 'blue' },
  ]);
});

test('calls of before a reload are performed', async () => {
  const server = await FakeServer.start();
  server.step(clientTool('a')).end();
  const pick_color = vi.fn(() => 'red');
  const { result } = render({ endpoint: server.url, toolHandlers: { pick_color }, resume: true });
  server.onPost = (server) => server.step(...text('t', 'Done.')).end();
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  expect(pick_color).toHaveBeenCalledTimes(1);
  expect(server.posts).toHaveLength(1);
});

test('a call that is there from the beginning is performed once in strict mode', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => server.step(...text('t', 'Done.')).end();
  const part = { type: 'dynamic-tool', toolName: 'pick_color', toolCallId: 'a', state: 'input-available', input: {} };
  const pick_color = vi.fn(() => 'red');
  const { result } = render({
    endpoint: server.url,
    toolHandlers: { pick_color },
    messages: [{ id: 'msg-1', role: 'assistant', parts: [{ type: 'step-start' }, part] }] as never,
  });
  await until(() => expect(wordsOf(result.current.messages)).toEqual(['Done.']));
  expect(pick_color).toHaveBeenCalledTimes(1);
});

// proves: RCT-02
test('what a handler throws goes to the page and to the server', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(clientTool('a', { n: 1 }));
  const failure = new Error('no camera');
  const onClientToolError = vi.fn();
  const { result } = render({
    endpoint: server.url,
    onClientToolError,
    toolHandlers: { pick_color: () => Promise.reject(failure) },
  });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  expect(onClientToolError.mock.calls).toEqual([
    [failure, { toolCallId: 'a', toolName: 'pick_color', input: { n: 1 } }],
  ]);
  expect(lastParts(server)[1]).toMatchObject({ state: 'output-error', errorText: 'no camera' });
});

test('an answer that the server does not know after a replay is sent again, without a second performance', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(clientTool('a'));
  const pick_color = vi.fn(() => 'red');
  let isDown = false;
  const { result } = render({
    endpoint: server.url,
    toolHandlers: { pick_color: () => ((isDown = true), pick_color()) },
    fetch: (...request) => (isDown ? Promise.reject(new TypeError('Failed to fetch')) : fetch(...request)),
  });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(result.current.status).toBe('error'));
  isDown = false;
  // The cursor is at the end of what the server has, so that there is nothing new; a reload of the bubble shows the call.
  await act(() => result.current.resumeStream());
  await act(() => result.current.resumeStream());
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  expect(pick_color).toHaveBeenCalledTimes(1);
  expect(server.posts).toHaveLength(2);
});

for (const how of ['another session', 'unmount', 'a new message', 'an answer elsewhere'] as const) {
  test(`handlers are aborted by ${how}, and their results are not sent`, async () => {
    const server = await FakeServer.start();
    server.onPost = asks(clientTool('a'));
    let context: ClientToolContext | undefined;
    let release = (_color: string) => {};
    const pick_color = (_input: unknown, given: ClientToolContext) => {
      context = given;
      return new Promise<string>((resolve) => (release = resolve));
    };
    const { result, rerender, unmount } = render({ endpoint: server.url, toolHandlers: { pick_color } });
    await act(() => result.current.sendMessage({ text: 'Hi' }));
    await until(() => expect(context?.abortSignal.aborted).toBe(false));
    if (how === 'unmount') unmount();
    else if (how === 'a new message') await act(() => result.current.sendMessage({ text: 'Something else' }));
    else if (how === 'an answer elsewhere') {
      server.push([{ type: 'tool-output-available', toolCallId: 'a', output: 'blue', dynamic: true }]).end();
      await act(() => result.current.resumeStream());
    } else rerender({ id: 'other', pollAnswers: false, endpoint: server.url, toolHandlers: { pick_color } });
    await until(() => expect(context?.abortSignal.aborted).toBe(true));
    const { length } = server.posts;
    release('red');
    await pause();
    expect(server.posts).toHaveLength(length);
  });
}

test('a call whose deadline has passed is not performed', async () => {
  const server = await FakeServer.start();
  const pending = (deadline: number): Chunk[] => [
    { type: 'data-pending', transient: true, data: [{ toolCallId: 'a', deadline }, { toolCallId: 'b' }] },
  ];
  server.onPost = asks(clientTool('a'), clientTool('b'), pending(Date.now() - 1));
  const pick_color = vi.fn((_input: unknown, { toolCallId }: ClientToolContext) => toolCallId);
  const { result } = render({ endpoint: server.url, toolHandlers: { pick_color } });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(pick_color).toHaveBeenCalled());
  await pause();
  expect(pick_color.mock.results.map(({ value }) => value)).toEqual(['b']);
  expect(result.current.pending).toMatchObject([{ toolCallId: 'a' }, { toolCallId: 'b' }]);
});

test('a call whose deadline is to come is performed', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(clientTool('a'), [
    { type: 'data-pending', transient: true, data: [{ toolCallId: 'a', deadline: Date.now() + 60_000 }] },
  ]);
  const { result } = render({ endpoint: server.url, toolHandlers: { pick_color: () => 'red' } });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
});

test('approvals are answered by the id of the call or of the approval', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(approval('a', 'approval-a'), approval('b', 'approval-b'));
  const { result } = render({ endpoint: server.url });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await act(() => result.current.approve('a'));
  await pause();
  expect(server.posts).toHaveLength(1);
  await act(() => result.current.deny('approval-b', 'too old'));
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  expect(server.posts).toHaveLength(2);
  expect(lastParts(server).slice(1)).toMatchObject([
    { state: 'approval-responded', approval: { id: 'approval-a', approved: true } },
    { state: 'approval-responded', approval: { id: 'approval-b', approved: false, reason: 'too old' } },
  ]);
  await expect(result.current.approve('a')).rejects.toThrow('no approval waits');
});

test('stop tells the server, and closes the stream', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => void server.push([{ type: 'start-step' }], ...text('t', 'one'));
  const { result } = render({ endpoint: server.url, headers: { authorization: 'Bearer t' } });
  act(() => void result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(wordsOf(result.current.messages)[1]).toBe('one'));
  await act(() => result.current.stop());
  expect(result.current.status).toBe('ready');
  expect(server.to('/interrupt')).toMatchObject([
    { method: 'POST', url: '/chat/s/interrupt', headers: { authorization: 'Bearer t' } },
  ]);
});

test('an answer by somebody else is seen and followed', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(approval('a', 'approval-a'));
  const { result } = render({ endpoint: server.url, pollAnswers: 20 });
  server.snapshot = { messages: [], status: 'paused', pending: [{ toolCallId: 'a', approvalId: 'approval-a' }] };
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(server.to('/snapshot').length).toBeGreaterThan(2));
  expect(server.reconnects).toHaveLength(0);
  server.step([{ type: 'tool-output-available', toolCallId: 'a', output: 1, dynamic: true }], ...text('t', 'Done.')).end();
  server.snapshot = { messages: [], status: 'ended', pending: [] };
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  await until(() => expect(result.current.status).toBe('ready'));
  const looks = server.to('/snapshot').length;
  await pause(100);
  expect(server.to('/snapshot')).toHaveLength(looks);
  expect(server.posts).toHaveLength(1);
});

const waits: Chunk[] = [{ type: 'data-pending', transient: true, data: [{ toolCallId: 'a', approvalId: 'approval-a' }] }];

test('a call that was answered waits no longer, whoever said that it did', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(approval('a', 'approval-a'), waits);
  const known = { toolCallId: 'z' };
  const { result } = render({ endpoint: server.url, pending: [known] as never });
  expect(result.current.pending).toEqual([known]);
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  expect(result.current.pending).toMatchObject([{ toolCallId: 'a' }]);
  await act(() => result.current.approve('a'));
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  await until(() => expect(result.current.pending).toEqual([]));
});

test('a stream that is lost or refused says nothing of the calls that wait, and a failed run ends them', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(approval('a', 'approval-a'), waits);
  const { result } = render({ endpoint: server.url });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  server.refuse = { status: 503, body: '{"error":"Try again.","code":"OVERLOADED"}' };
  await act(() => result.current.approve('a'));
  await until(() => expect(result.current.status).toBe('error'));
  expect(result.current.pending).toHaveLength(1);
  server.refuse = undefined;
  server.onPost = (server) =>
    server.push([
      { type: 'data-error', transient: true, data: { errorText: 'failed', code: 'model', recoverable: false } },
      { type: 'error', errorText: 'failed' },
    ]).end();
  await act(() => result.current.retry());
  await until(() => expect(result.current.pending).toEqual([]));
});

test('what others have answered waits no longer, while other calls do', async () => {
  const server = await FakeServer.start();
  const [a, b] = [{ toolCallId: 'a', approvalId: 'approval-a' }, { toolCallId: 'b', approvalId: 'approval-b' }];
  server.onPost = asks(approval('a', 'approval-a'), approval('b', 'approval-b'), [
    { type: 'data-pending', transient: true, data: [a, b] },
  ]);
  server.snapshot = { messages: [], status: 'paused', pending: [a, b] };
  const { result } = render({ endpoint: server.url, pollAnswers: 20, fetch: async (...request) => {
    // The bubble is not replayed: only the look says what waits.
    if (String(request[0]).endsWith('/stream')) return new Response(null, { status: 204 });
    return fetch(...request);
  } });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  expect(result.current.pending).toEqual([a, b]);
  server.snapshot = { messages: [], status: 'paused', pending: [b] };
  await until(() => expect(result.current.pending).toEqual([b]));
});

test('calls of a sub-agent that have the ids of others are known to wait', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(approval('a', 'approval-1'), approval('child/a', 'approval-2'), clientTool('child/b'));
  const { result } = render({ endpoint: server.url, pollAnswers: 20 });
  const waits = (sessionId: string, toolCallId: string, approvalId?: string) => ({ sessionId, toolCallId, approvalId });
  const [own, ofChild, ask] = [waits('s', 'a', 'approval-1'), waits('child', 'a', 'approval-2'), waits('child', 'b')];
  server.snapshot = { messages: [], status: 'paused', pending: [own, ofChild, ask] };
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(server.to('/snapshot').length).toBeGreaterThan(3));
  expect(server.reconnects).toHaveLength(0);
  // One of two calls with the same id is answered elsewhere.
  server.snapshot = { messages: [], status: 'paused', pending: [ofChild, ask] };
  await until(() => expect(server.reconnects.length).toBeGreaterThan(0));
});

test('a call of a sub-agent whose deadline has passed is not performed', async () => {
  const server = await FakeServer.start();
  const late = { sessionId: 'child', toolCallId: 'a', deadline: Date.now() - 1 };
  server.onPost = asks(clientTool('child/a'), clientTool('a'), [{ type: 'data-pending', transient: true, data: [late] }]);
  const pick_color = vi.fn((_input: unknown, { toolCallId }: ClientToolContext) => toolCallId);
  const { result } = render({ endpoint: server.url, toolHandlers: { pick_color } });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  await pause();
  expect(pick_color.mock.results.map(({ value }) => value)).not.toContain('child/a');
});

test('a call that the server has ended is not taken for an answer of this page', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(clientTool('a'));
  const { result } = render({ endpoint: server.url });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  server.push([{ type: 'tool-output-error', toolCallId: 'a', errorText: 'stopped', dynamic: true }]).end();
  await act(() => result.current.resumeStream());
  await pause();
  expect(result.current.messages[1]!.parts.at(-1)).toMatchObject({ state: 'output-error' });
  expect(server.posts).toHaveLength(1);
});

test('a failure of the run is a typed error, and retry asks again', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => {
    if (server.posts.length > 1) return void server.step(...text('t', 'Better.')).end();
    const data = { errorText: 'The model is overloaded.', code: 'provider_overloaded', recoverable: true };
    server.push([{ type: 'start-step' }], ...text('t', 'Partial'), [{ type: 'data-error', transient: true, data }]);
    server.push([{ type: 'error', errorText: data.errorText }]).end();
  };
  const { result } = render({ endpoint: server.url });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  expect(result.current.error).toBeInstanceOf(HelixStreamError);
  expect(result.current.error).toMatchObject({ code: 'provider_overloaded', retryable: true });
  await act(() => result.current.retry());
  expect(wordsOf(result.current.messages)).toEqual(['Hi', 'Better.']);
  expect(server.posts[1]!.body.trigger).toBe('regenerate-message');
  expect(result.current.error).toBeUndefined();
});

test('retry sends refused answers again', async () => {
  const server = await FakeServer.start();
  server.onPost = asks(approval('a', 'approval-a'));
  const { result } = render({ endpoint: server.url });
  await act(() => result.current.sendMessage({ text: 'Hi' }));
  server.refuse = { status: 503, body: '{"error":"Busy.","code":"UNAVAILABLE"}' };
  await act(() => result.current.approve('a'));
  await until(() => expect(result.current.status).toBe('error'));
  expect(result.current.error).toBeInstanceOf(HelixHttpError);
  await pause();
  expect(server.posts).toHaveLength(2);
  server.refuse = undefined;
  await act(() => result.current.retry());
  await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('Done.'));
  expect(server.posts).toHaveLength(3);
  expect(lastParts(server)[1]).toMatchObject({ state: 'approval-responded' });
});

test('retry follows a run whose connection was lost, each word once', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => void server.push([{ type: 'start-step' }], ...text('t', 'one '));
  const { result } = render({ endpoint: server.url });
  act(() => void result.current.sendMessage({ text: 'Hi' }));
  await until(() => expect(wordsOf(result.current.messages)[1]).toBe('one '));
  server.cut();
  await until(() => expect(result.current.status).toBe('error'));
  server.push([{ type: 'text-delta', id: 't', delta: 'two' }]).end();
  await act(() => result.current.retry());
  await until(() => expect(wordsOf(result.current.messages)).toEqual(['Hi', 'one two']));
  expect(server.posts).toHaveLength(1);
});
