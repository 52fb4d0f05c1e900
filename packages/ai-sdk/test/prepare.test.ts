import { DefaultChatTransport, type UIMessage } from 'ai';
import { expect, test } from 'vitest';
import { prepareHelixChatRequest, prepareHelixReconnectRequest } from '../src/client.js';
import { newChat, wordsOf } from './chat.js';
import { FakeServer, text } from './server.js';

// proves: RCT-01
test('the stock transport sends and reconnects by one route, and names the sequence when it reconnects', async () => {
  const server = await FakeServer.start();
  const options = {
    api: `${server.url}/chat`,
    resumeFromSequence: 7,
    existingMessageId: 'msg-3',
    body: { agentType: 'support', id: 'not this' },
  };
  const transport = new DefaultChatTransport<UIMessage>({
    headers: { authorization: 'Bearer t' },
    prepareSendMessagesRequest: prepareHelixChatRequest(options),
    prepareReconnectToStreamRequest: prepareHelixReconnectRequest(options),
  });
  server.onPost = (server) => server.step(...text('t', 'Hello.')).end();
  const chat = newChat(transport);
  await chat.sendMessage({ text: 'Hi' }, { body: { more: 1 } });
  expect(wordsOf(chat.messages)).toEqual(['Hi', 'Hello.']);
  const [post] = server.posts;
  expect(post!.body).toEqual({
    agentType: 'support',
    id: 's',
    more: 1,
    messages: [chat.messages[0]],
    trigger: 'submit-message',
  });
  expect(post!.headers).toMatchObject({ authorization: 'Bearer t' });
  expect(post!.headers).not.toHaveProperty('x-resume-from-sequence');

  await chat.resumeStream();
  const get = server.seen.at(-1)!;
  expect([get.method, get.url]).toEqual(['GET', '/chat']);
  expect(get.headers).toMatchObject({
    authorization: 'Bearer t',
    'x-resume-from-sequence': '7',
    'x-existing-message-id': 'msg-3',
  });
});
