import { createHelixSendAutomaticallyWhen, pendingOf } from '../src/answers.js';
import { createHelixChatTransport } from '../src/transport.js';
import type { UIMessage } from 'ai';
import { expect, test } from 'vitest';
import { newChat, until, wordsOf } from './chat.js';
import { approval, clientTool, FakeServer, text } from './server.js';

type Part = UIMessage['parts'][number];
const bubble = (...parts: object[]): { messages: UIMessage[] } => ({
  messages: [{ id: 'msg-1', role: 'assistant', parts: parts as Part[] }],
});
const tool = (toolCallId: string, state: string, more: object = {}) => ({
  type: 'dynamic-tool',
  toolName: 'pick_color',
  toolCallId,
  state,
  input: {},
  ...more,
});
const step = { type: 'step-start' };

// proves: RCT-02
test('an answer is sent once, and again only when it is forgotten or asked for again', () => {
  const predicate = createHelixSendAutomaticallyWhen('s');
  const answered = bubble(step, tool('a', 'output-available'));
  expect(predicate(bubble(step, tool('a', 'input-available')))).toBe(false);
  expect(predicate(answered)).toBe(true);
  expect(predicate(answered)).toBe(false);
  predicate.forget();
  expect(predicate(answered)).toBe(true);
  expect(predicate(bubble(step, tool('a', 'input-available')))).toBe(false);
  expect(predicate(answered)).toBe(true);
});

test('answers are sent when all calls of the step have one', () => {
  const predicate = createHelixSendAutomaticallyWhen();
  const output = tool('a', 'output-error');
  expect(predicate(bubble(step, output, tool('b', 'approval-requested')))).toBe(false);
  expect(predicate(bubble(step, tool('a', 'input-streaming'), tool('b', 'approval-responded')))).toBe(false);
  expect(predicate(bubble(step, output, tool('b', 'approval-responded')))).toBe(true);
  expect(predicate(bubble(step, output, tool('b', 'output-available', { providerExecuted: true })))).toBe(false);
});

test('only answers of a client in the last step count', () => {
  const predicate = createHelixSendAutomaticallyWhen();
  expect(predicate({ messages: [] })).toBe(false);
  expect(predicate(bubble(step, tool('a', 'output-available'), step, { type: 'text', text: 'Done.' }))).toBe(false);
  expect(predicate(bubble(step, tool('a', 'output-available', { providerExecuted: true })))).toBe(false);
  expect(predicate(bubble(step, tool('a', 'output-available', { preliminary: true })))).toBe(false);
  expect(predicate(bubble(step, tool('a', 'output-denied')))).toBe(false);
  const { messages } = bubble(step, tool('a', 'output-available'));
  expect(predicate({ messages: [...messages, { id: 'u', role: 'user', parts: [] }] })).toBe(false);
});

test('outputs that others gave do not count', () => {
  const predicate = createHelixSendAutomaticallyWhen('s', (toolCallId) => toolCallId === 'mine');
  expect(predicate(bubble(step, tool('other', 'output-error')))).toBe(false);
  expect(predicate(bubble(step, tool('other', 'output-error'), tool('mine', 'output-available')))).toBe(true);
});

test('a server that never closes the step gets each answer once', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => {
    if (server.posts.length === 1) server.push(clientTool('a'));
    else server.push(...text('t', 'Again.'));
    server.end();
  };
  const chat = newChat(createHelixChatTransport({ endpoint: server.url }), {
    sendAutomaticallyWhen: createHelixSendAutomaticallyWhen('s'),
  });
  await chat.sendMessage({ text: 'Hello' });
  await chat.addToolOutput({ tool: 'pick_color', toolCallId: 'a', output: 'red' });
  await until(() => expect(server.posts).toHaveLength(2));
  await until(() => expect(chat.status).toBe('ready'));
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(server.posts).toHaveLength(2);
});

test('a client output and an approval of one step are sent together, in one request', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => {
    if (server.posts.length === 1) server.step(clientTool('a'), approval('b', 'approval-b'));
    else server.step([{ type: 'tool-output-available', toolCallId: 'b', output: 1, dynamic: true }], ...text('t', 'Done.'));
    server.end();
  };
  const chat = newChat(createHelixChatTransport({ endpoint: server.url }), {
    sendAutomaticallyWhen: createHelixSendAutomaticallyWhen('s'),
  });
  await chat.sendMessage({ text: 'Hello' });
  await chat.addToolApprovalResponse({ id: 'approval-b', approved: true });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(server.posts).toHaveLength(1);
  await chat.addToolOutput({ tool: 'pick_color', toolCallId: 'a', output: 'red' });
  await until(() => expect(wordsOf(chat.messages).at(-1)).toBe('Done.'));
  expect(server.posts).toHaveLength(2);
  const parts = server.posts[1]!.body.messages.at(-1)!.parts;
  expect(parts).toMatchObject([
    { type: 'step-start' },
    { toolCallId: 'a', state: 'output-available', output: 'red' },
    { toolCallId: 'b', state: 'approval-responded', approval: { id: 'approval-b', approved: true } },
  ]);
});

test('a part is found among the calls that wait, by its approval, its id, or that with its session', () => {
  const call = (sessionId: string, toolCallId: string, approvalId?: string) => ({ sessionId, toolCallId, approvalId });
  const [own, ofChild, asked] = [call('s', 'a', 'approval-1'), call('child', 'a', 'approval-2'), call('child', 'b')];
  const all = [own, ofChild, asked];
  const approvalOf = (id: string) => ({ toolCallId: 'a', approval: { id } }) as Parameters<typeof pendingOf>[0];
  expect(pendingOf(approvalOf('approval-2'), all)).toBe(ofChild);
  expect(pendingOf(approvalOf('approval-3'), all)).toBeUndefined();
  expect(pendingOf({ toolCallId: 'a', approval: undefined }, all)).toBe(own);
  expect(pendingOf({ toolCallId: 'child/a', approval: undefined }, all)).toBe(ofChild);
  expect(pendingOf({ toolCallId: 'b', approval: undefined }, all)).toBe(asked);
  expect(pendingOf({ toolCallId: 'child/b', approval: undefined }, all)).toBe(asked);
  expect(pendingOf({ toolCallId: 'other/b', approval: undefined }, all)).toBeUndefined();
});
