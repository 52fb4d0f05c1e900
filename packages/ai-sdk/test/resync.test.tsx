// @vitest-environment jsdom
import { act, cleanup, renderHook } from '@testing-library/react';
import { StrictMode } from 'react';
import { afterEach, expect, test, vi } from 'vitest';
import {
  useCheckpointSnapshot,
  useHelixChat,
  useResumableChat,
  useResyncState,
  useStreamResync,
} from '../src/react.js';
import { until, wordsOf } from './chat.js';
import { FakeServer, text } from './server.js';

afterEach(cleanup);

const RESYNC = [{ type: 'data-stream-resync', transient: true, data: { reason: 'crash' } }];
const message = (id: string, role: string, said: string) => ({ id, role, parts: [{ type: 'text', text: said, state: 'done' }] });
const history = [message('u1', 'user', 'Hi'), message('msg-1', 'assistant', 'Hello.'), message('u2', 'user', 'More')];

const renderChat = (server: FakeServer) =>
  renderHook(
    () => {
      const chat = useHelixChat({ id: 's', endpoint: server.url, pollAnswers: false });
      return { chat, resumable: useResumableChat(chat.data, chat) };
    },
    { wrapper: StrictMode },
  );

// proves: RCT-03
test('a page that is loaded shows the finished messages and follows the bubble in flight', async () => {
  const server = await FakeServer.start();
  server.snapshot = { messages: history, status: 'active', pending: [] };
  server.push([{ type: 'start', messageId: 'msg-2' }], [{ type: 'start-step' }], ...text('t', 'one '));
  const { result } = renderChat(server);
  expect(result.current.resumable.isLoading).toBe(true);
  await until(() => expect(wordsOf(result.current.chat.messages)).toEqual(['Hi', 'Hello.', 'More', 'one ']));
  expect(result.current.resumable).toMatchObject({ isLoading: false, snapshot: { status: 'active' }, hasResynced: false });
  act(() => void server.push([{ type: 'text-delta', id: 't', delta: 'two' }]).end());
  await until(() => expect(wordsOf(result.current.chat.messages).at(-1)).toBe('one two'));
});

test('a finished session is shown without a stream, and none is an empty page', async () => {
  const server = await FakeServer.start();
  server.snapshot = { messages: history.slice(0, 2), status: 'ended', pending: [] };
  const { result } = renderChat(server);
  await until(() => expect(wordsOf(result.current.chat.messages)).toEqual(['Hi', 'Hello.']));
  expect(server.reconnects).toHaveLength(0);
  cleanup();
  server.snapshot = null;
  const empty = renderChat(server).result;
  await until(() => expect(empty.current.resumable).toMatchObject({ isLoading: false, snapshot: null, error: undefined }));
  expect(empty.current.chat.messages).toEqual([]);
});

test('a snapshot that cannot be loaded is an error', async () => {
  const server = await FakeServer.start();
  server.refuse = { status: 401, body: '{"error":"Sign in.","code":"UNAUTHENTICATED"}' };
  const { result } = renderChat(server);
  await until(() => expect(result.current.resumable.error).toMatchObject({ code: 'UNAUTHENTICATED' }));
  expect(result.current.resumable.isLoading).toBe(false);
});

// proves: RCT-03
test('a resync replaces what is shown of the bubble in flight', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => void server.push([{ type: 'start-step' }], ...text('t', 'wrong '));
  const { result } = renderChat(server);
  await until(() => expect(result.current.resumable.isLoading).toBe(false));
  act(() => void result.current.chat.sendMessage({ text: 'Hi' }));
  await until(() => expect(wordsOf(result.current.chat.messages)[1]).toBe('wrong '));

  const sent = result.current.chat.messages[0]!;
  server.snapshot = { messages: [sent], status: 'active', pending: [] };
  server.push(RESYNC);
  server['frames'] = [];
  server.push([{ type: 'start', messageId: 'msg-1' }], [{ type: 'start-step' }], ...text('t', 'right'));
  await until(() => expect(wordsOf(result.current.chat.messages)).toEqual(['Hi', 'right']));
  act(() => void server.end());
  await until(() => expect(result.current.chat.status).toBe('ready'));
  expect(wordsOf(result.current.chat.messages)).toEqual(['Hi', 'right']);
  expect(result.current.resumable).toMatchObject({ hasResynced: true, resyncCount: 1 });
  expect(server.to('/interrupt')).toHaveLength(0);
});

test('a resync of a run that fails shows the failure, and so does a reload', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => void server.push([{ type: 'start-step' }], ...text('t', 'wrong '));
  const { result } = renderChat(server);
  await until(() => expect(result.current.resumable.isLoading).toBe(false));
  act(() => void result.current.chat.sendMessage({ text: 'Hi' }));
  await until(() => expect(wordsOf(result.current.chat.messages)[1]).toBe('wrong '));
  server.snapshot = { messages: [result.current.chat.messages[0]], status: 'failed', pending: [] };
  server.push(RESYNC);
  server['frames'] = [];
  server.push([{ type: 'start', messageId: 'msg-1' }], [{ type: 'error', errorText: 'It broke.' }]).end();
  await until(() => expect(result.current.chat.error?.message).toBe('It broke.'));
  cleanup();
  const again = renderChat(server).result;
  await until(() => expect(again.current.chat.error?.message).toBe('It broke.'));
});

test('each resync is told once', () => {
  const onResync = vi.fn();
  const first = { type: 'data-stream-resync', data: { reason: 'crash' } };
  const second = { type: 'data-stream-resync', data: { reason: 'rollback' } };
  const { result, rerender } = renderHook(
    ({ data }) => {
      useStreamResync(data, onResync);
      return useResyncState(data);
    },
    { initialProps: { data: [first, { type: 'data-run-started', data: {} }] as { type: string; data: object }[] }, wrapper: StrictMode },
  );
  rerender({ data: [first] });
  rerender({ data: [first, second] });
  expect(onResync.mock.calls).toEqual([[first], [second]]);
  expect(result.current).toEqual({ hasResynced: true, resyncCount: 2, lastResync: second });
});

// proves: RCT-03
test('the snapshot of a checkpoint is that of the checkpoint', async () => {
  const server = await FakeServer.start();
  server.snapshot = { messages: [], status: 'ended', checkpointId: 'c1', pending: [] };
  const { result, rerender } = renderHook(
    ({ checkpointId }) => useCheckpointSnapshot({ snapshotUrl: `${server.url}/chat/s/snapshot`, checkpointId }),
    { initialProps: { checkpointId: 'c1' }, wrapper: StrictMode },
  );
  await until(() => expect(result.current.snapshot).toMatchObject({ checkpointId: 'c1' }));
  expect(server.seen.at(-1)!.url).toBe('/chat/s/snapshot?checkpointId=c1');
  rerender({ checkpointId: 'c2' });
  expect(result.current.isLoading).toBe(true);
  await until(() => expect(result.current.error).toEqual(new Error('the server has no snapshot at checkpoint c2')));
});
