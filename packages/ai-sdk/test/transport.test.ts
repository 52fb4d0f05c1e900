import { expect, test, vi } from 'vitest';
import { createHelixChatTransport, HelixHttpError } from '../src/client.js';
import { newChat, until, wordsOf } from './chat.js';
import { clientTool, FakeServer, text } from './server.js';

const endless = (server: FakeServer) => void server.push([{ type: 'start-step' }], ...text('t', 'one ', 'two '));

// proves: RCT-01
test('a message goes to the chat route, with session, agent and headers', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => server.step(...text('t', 'Hello.')).end();
  const transport = createHelixChatTransport({
    endpoint: `${server.url}/api/`,
    sessionId: 'a b',
    agentType: 'support',
    headers: async () => ({ authorization: 'Bearer t' }),
    body: { extra: true },
  });
  const chat = newChat(transport);
  await chat.sendMessage({ text: 'Hi' });
  expect(wordsOf(chat.messages)).toEqual(['Hi', 'Hello.']);
  expect(server.posts[0]).toMatchObject({
    url: '/api/chat',
    headers: { authorization: 'Bearer t' },
    body: { id: 'a b', agentType: 'support', extra: true, trigger: 'submit-message' },
  });
  await chat.resumeStream();
  expect(server.reconnects[0]).toMatchObject({
    url: '/api/chat/a%20b/stream',
    headers: { authorization: 'Bearer t' },
  });
});

for (const [how, cleanly] of [['breaks', false], ['ends too early', true]] as const) {
  for (const hidden of [true, false]) {
    test(`a connection that ${how} is continued after the last chunk, ${hidden ? 'under useChat of 3.x' : 'elsewhere'}`, async () => {
      const server = await FakeServer.start();
      server.onPost = endless;
      const chat = newChat(createHelixChatTransport({ endpoint: server.url }), { hidden });
      const sent = chat.sendMessage({ text: 'Hi' });
      await until(() => expect(wordsOf(chat.messages)[1]).toBe('one two '));
      server.cut(cleanly);
      await sent;
      expect(chat.status).toBe('error');
      server.push([{ type: 'text-delta', id: 't', delta: 'three ' }]);
      const resumed = chat.resumeStream();
      await until(() => expect(wordsOf(chat.messages)[1]).toBe('one two three '));
      // Once more, in the middle of a chunk of two frames.
      server.pushPart({ type: 'data-note', data: 1 });
      await new Promise((resolve) => setTimeout(resolve, 20));
      server.cut(cleanly);
      await resumed;
      server.push([{ type: 'data-note', data: 1 }, { type: 'text-delta', id: 't', delta: 'four' }]);
      server.push([{ type: 'text-end', id: 't' }], [{ type: 'finish-step' }]).end();
      await chat.resumeStream();
      expect(chat.status).toBe('ready');
      expect(wordsOf(chat.messages)).toEqual(['Hi', 'one two three four']);
      expect(chat.messages[1]!.parts.map((part) => part.type)).toEqual(['step-start', 'text', 'data-note']);
      expect(server.reconnects.map(({ headers }) => headers['last-event-id'])).toEqual(['3', '4']);
    });
  }
}

for (const hidden of [true, false]) {
  test(`nothing of a burst is lost or doubled when the connection breaks behind it${hidden ? ', under useChat of 3.x' : ''}`, async () => {
    const server = await FakeServer.start();
    const words = Array.from({ length: 2000 }, (_, index) => `w${index} `);
    server.onPost = (server) => {
      server.push([{ type: 'start-step' }], ...text('t', ...words.slice(0, 1000)));
      server.cut(true);
    };
    const chat = newChat(createHelixChatTransport({ endpoint: server.url }), { hidden });
    await chat.sendMessage({ text: 'Hi' });
    expect(wordsOf(chat.messages)[1]).toBe(words.slice(0, 1000).join(''));
    server.push(...words.slice(1000).map((delta) => [{ type: 'text-delta', id: 't', delta }])).end();
    await chat.resumeStream();
    expect(wordsOf(chat.messages)[1]).toBe(words.join(''));
    expect(server.reconnects[0]!.headers['last-event-id']).toBe('1001');
  });
}

test('after a reconnect that fails the cursor is still there', async () => {
  const server = await FakeServer.start();
  server.onPost = endless;
  let isDown = false;
  const chat = newChat(
    createHelixChatTransport({
      endpoint: server.url,
      fetch: (...request) => (isDown ? Promise.reject(new TypeError('Load failed')) : fetch(...request)),
    }),
    { hidden: true },
  );
  const sent = chat.sendMessage({ text: 'Hi' });
  await until(() => expect(wordsOf(chat.messages)[1]).toBe('one two '));
  server.cut();
  await sent;
  isDown = true;
  await chat.resumeStream();
  expect(chat.status).toBe('error');
  isDown = false;
  server.push([{ type: 'text-delta', id: 't', delta: 'three' }]).end();
  await chat.resumeStream();
  expect(wordsOf(chat.messages)[1]).toBe('one two three');
});

test('a chat that has kept nothing asks for the whole bubble', async () => {
  const server = await FakeServer.start();
  server.onPost = endless;
  const transport = createHelixChatTransport({ endpoint: server.url });
  const chat = newChat(transport);
  void chat.sendMessage({ text: 'Hi' });
  await until(() => expect(wordsOf(chat.messages)[1]).toBe('one two '));
  await chat.stop();
  const resumed = chat.resumeStream();
  await until(() => expect(server.reconnects).toHaveLength(1));
  server.push([{ type: 'text-delta', id: 't', delta: 'three' }]).end();
  await resumed;
  expect(wordsOf(chat.messages)).toEqual(['Hi', 'one two three']);

  const fresh = newChat(createHelixChatTransport({ endpoint: server.url }));
  await fresh.resumeStream();
  expect(wordsOf(fresh.messages)).toEqual(['one two three']);
  expect(server.reconnects.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, undefined]);
});

test('after a failure of the run the whole bubble is asked for', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => void server.push([{ type: 'start-step' }], [{ type: 'error', errorText: 'It broke.' }]);
  const chat = newChat(createHelixChatTransport({ endpoint: server.url }));
  await chat.sendMessage({ text: 'Hi' });
  expect(chat.error?.message).toBe('It broke.');
  server.end();
  await chat.resumeStream();
  expect(chat.error?.message).toBe('It broke.');
  expect(server.reconnects[0]!.headers['last-event-id']).toBeUndefined();
});

test('answers that did not reach the server leave the bubble as it is', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => server.step(...text('t', 'Pick.'), [{ type: 'text-end', id: 't' }], clientTool('a')).end();
  let isDown = false;
  const chat = newChat(
    createHelixChatTransport({
      endpoint: server.url,
      fetch: (...request) => (isDown ? Promise.reject(new TypeError('Load failed')) : fetch(...request)),
    }),
    { hidden: true },
  );
  await chat.sendMessage({ text: 'Hi' });
  isDown = true;
  await chat.sendMessage();
  expect(chat.status).toBe('error');
  isDown = false;
  await chat.resumeStream();
  expect(chat.status).toBe('ready');
  expect(chat.messages[1]!.parts.map((part) => part.type)).toEqual(['step-start', 'text', 'dynamic-tool']);
  expect(server.reconnects[0]!.headers['last-event-id']).toBe('5');
});

test('a message that goes on names what the chat has of it, and a new one does not', async () => {
  const server = await FakeServer.start();
  server.onPost = (server) => server.step(...text('t', 'Hello.'), [{ type: 'text-end', id: 't' }]).end();
  const headers = { authorization: 'Bearer t' };
  const chat = newChat(createHelixChatTransport({ endpoint: server.url, headers }));
  await chat.sendMessage({ text: 'Hi' });
  await chat.sendMessage();
  await chat.sendMessage({ text: 'And?' });
  expect(server.posts.map((post) => post.headers['last-event-id'])).toEqual([undefined, '4', undefined]);
  expect(server.posts.map((post) => post.headers.authorization)).toEqual(Array(3).fill('Bearer t'));
});

test('a server without ids streams word by word, and is asked for everything', async () => {
  const server = await FakeServer.start();
  server.withIds = false;
  server.onPost = endless;
  const chat = newChat(
    createHelixChatTransport({
      endpoint: server.url,
      fetch: async (...request) => {
        const response = await fetch(...request);
        return new Response(response.body, { status: response.status });
      },
    }),
  );
  const sent = chat.sendMessage({ text: 'Hi' });
  await until(() => expect(wordsOf(chat.messages)[1]).toBe('one two '));
  server.cut();
  await sent;
  server.end();
  await chat.resumeStream();
  expect(wordsOf(chat.messages)[1]).toBe('one two ');
  expect(server.reconnects[0]!.headers['last-event-id']).toBeUndefined();
});

test('a refusal is a typed error with the sentence for the user', async () => {
  const server = await FakeServer.start();
  server.refuse = {
    status: 503,
    body: '{"error":"The service is busy.","detail":"store is locked","code":"UNAVAILABLE"}',
  };
  const onError = vi.fn();
  const chat = newChat(createHelixChatTransport({ endpoint: server.url }), { onError });
  await chat.sendMessage({ text: 'Hi' });
  const error = chat.error as HelixHttpError;
  expect(error).toBeInstanceOf(HelixHttpError);
  expect(error).toMatchObject({
    message: 'The service is busy.',
    detail: 'store is locked',
    code: 'UNAVAILABLE',
    statusCode: 503,
    retryable: true,
  });
  server.refuse = { status: 404, body: '<html>' };
  await chat.sendMessage({ text: 'Hi' });
  expect(chat.error).toMatchObject({ code: 'HTTP_404', detail: '<html>', retryable: false });
});

test('a snapshot of no session is null, and one to stop is named', async () => {
  const server = await FakeServer.start();
  const transport = createHelixChatTransport({ endpoint: server.url, headers: { authorization: 'Bearer t' } });
  expect(await transport.snapshot('s')).toBeNull();
  server.snapshot = { status: 'ended', messages: [] };
  expect(await transport.snapshot('s')).toEqual(server.snapshot);
  expect(await transport.interrupt('s', 'enough')).toBe(false);
  expect(server.seen.at(-1)).toMatchObject({
    method: 'POST',
    url: '/chat/s/interrupt',
    headers: { authorization: 'Bearer t', 'content-type': 'application/json' },
    body: { reason: 'enough' },
  });
  server.refuse = { status: 401, body: '{"error":"Sign in.","code":"UNAUTHENTICATED"}' };
  await expect(transport.interrupt('s')).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  await expect(transport.snapshot('s')).rejects.toMatchObject({ statusCode: 401 });
});
