// @vitest-environment jsdom
/** The package against a server: HELIX_URL=http://127.0.0.1:8787 npm test, with the agent `scenarios` of `helix dev`. */
import { act, cleanup, renderHook } from '@testing-library/react';
import { useChat } from '@ai-sdk/react';
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
  type UIMessage,
} from 'ai';
import { StrictMode } from 'react';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { useHelixChat, useResumableChat, type UseHelixChatOptions } from '../src/react.js';
import { wordsOf } from './chat.js';

const server = process.env.HELIX_URL;
const LONG = { timeout: 10_000, interval: 10 };
const until = <T,>(what: () => T) => vi.waitFor(what, LONG);
const tools = (messages: readonly UIMessage[]) =>
  messages.flatMap((message) => message.parts).filter((part) => part.type === 'dynamic-tool');

let count = 0;
const newId = () => `ts-${process.env.AI_SDK}-${Date.now()}-${++count}`;

/** What the page has asked for, and a switch for its network. */
class Network {
  requests: string[] = [];
  cursors: (string | null)[] = [];
  private open = new Set<AbortController>();

  readonly fetch: typeof fetch = async (input, init) => {
    const { pathname } = new URL(String(input));
    this.requests.push(`${init?.method ?? 'GET'} ${pathname.split('/').at(-1)}`);
    if (pathname.endsWith('/stream')) this.cursors.push(new Headers(init?.headers).get('last-event-id'));
    const line = new AbortController();
    this.open.add(line);
    init?.signal?.addEventListener('abort', () => line.abort());
    const response = await fetch(input, { ...init, signal: line.signal });
    if (!response.body) return response;
    // A broken line is an error of the network to the page, not one of its own making.
    const body = response.body.getReader();
    const stream = new ReadableStream<Uint8Array>({
      async pull(controller) {
        try {
          const { done, value } = await body.read();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch {
          controller.error(new TypeError('network error'));
        }
      },
      cancel: (reason) => body.cancel(reason),
    });
    return new Response(stream, { status: response.status, headers: response.headers });
  };

  cut(): void {
    for (const line of this.open) line.abort();
    this.open.clear();
  }

  get posts(): number {
    return this.requests.filter((request) => request === 'POST chat').length;
  }
}

function open(id: string, options: UseHelixChatOptions = {}) {
  const network = new Network();
  const page = renderHook(
    () => {
      const chat = useHelixChat({ id, endpoint: `${server}/api`, agentType: 'scenarios', fetch: network.fetch, ...options });
      return { ...chat, resumable: useResumableChat(chat.data, chat) };
    },
    { wrapper: StrictMode },
  );
  const chat = () => page.result.current;
  const send = async (text: string) => {
    await until(() => expect(chat().resumable.isLoading).toBe(false));
    act(() => void chat().sendMessage({ text }));
  };
  const says = (text: string) =>
    until(() => {
      expect(wordsOf(chat().messages).at(-1)).toBe(text);
      expect(chat().status).toBe('ready');
    });
  return { ...page, chat, send, says, network };
}

const slow = (n: number) => Array.from({ length: n }, (_, index) => `w${index}`).join(' ');

afterEach(cleanup);

describe.skipIf(!server)('against the server at HELIX_URL', () => {
  let id = '';
  beforeEach(() => {
    id = newId();
  });

  test('the stock hook needs nothing of this package', async () => {
    const transport = new DefaultChatTransport({ api: `${server}/api/chat`, body: { agentType: 'scenarios' } });
    const open = (resume: boolean) =>
      renderHook(() =>
        useChat({
          id,
          transport,
          resume,
          sendAutomaticallyWhen: (options) =>
            lastAssistantMessageIsCompleteWithToolCalls(options) ||
            lastAssistantMessageIsCompleteWithApprovalResponses(options),
        }),
      );
    const page = open(false);
    await act(() => page.result.current.sendMessage({ text: 'scenario:mixed' }));
    page.unmount();
    const { result } = open(true);
    await until(() => expect(tools(result.current.messages)).toHaveLength(2));
    await until(() => expect(result.current.status).toBe('ready'));
    const [color, file] = tools(result.current.messages);
    await act(async () => {
      await result.current.addToolOutput({ tool: 'pick_color', toolCallId: color!.toolCallId, output: { color: 'red' } });
      await result.current.addToolApprovalResponse({ id: file!.approval!.id, approved: true });
    });
    await until(() => expect(wordsOf(result.current.messages).at(-1)).toBe('You picked red. Deleted /tmp/x.'));
  });

  test('a message is answered, and is there after a reload', async () => {
    const page = open(id);
    await page.send('scenario:text');
    await page.says('Echo: hello world');
    page.unmount();
    const again = open(id);
    await again.says('Echo: hello world');
    expect(wordsOf(again.chat().messages)).toEqual(['scenario:text', 'Echo: hello world']);
    await again.send('scenario:count');
    await again.says('turn 2');
  });

  test('a client tool is performed, and its output continues the run', async () => {
    const pick_color = vi.fn((input: { prompt: string }) => ({ color: input.prompt === 'First' ? 'red' : 'blue' }));
    const page = open(id, { toolHandlers: { pick_color } });
    await page.send('scenario:client-tool-two');
    await page.says('You picked red and blue.');
    expect(pick_color).toHaveBeenCalledTimes(2);
    expect(page.network.posts).toBe(2);
    expect(page.chat().messages).toHaveLength(2);
  });

  test('what a client tool throws is the error of its call', async () => {
    const page = open(id, { toolHandlers: { pick_color: () => Promise.reject(new Error('no colors today')) } });
    await page.send('scenario:client-tool');
    await page.says('The client tool failed: no colors today');
  });

  test('an approval runs the call, a denial tells the model why', async () => {
    const page = open(id);
    await page.send('scenario:approval');
    await until(() => expect(tools(page.chat().messages)[0]?.state).toBe('approval-requested'));
    await until(() => expect(page.chat().pending).toMatchObject([{ kind: 'approval', toolName: 'delete_file' }]));
    await act(() => page.chat().approve(tools(page.chat().messages)[0]!.toolCallId));
    await page.says('Deleted /tmp/x.');

    await page.send('scenario:approval');
    await until(() => expect(tools(page.chat().messages)[1]?.state).toBe('approval-requested'));
    await act(() => page.chat().deny(tools(page.chat().messages)[1]!.toolCallId, 'too risky'));
    await page.says('Not deleted: too risky');
    expect(page.network.posts).toBe(4);
  });

  test('a client tool and an approval of one step are answered together, after a reload too', async () => {
    const first = open(id);
    await first.send('scenario:mixed');
    await until(() => expect(tools(first.chat().messages).map((part) => part.state)).toEqual(['input-available', 'approval-requested']));
    await until(() => expect(first.chat().status).toBe('ready'));
    first.unmount();

    const page = open(id, { toolHandlers: { pick_color: () => ({ color: 'green' }) } });
    await until(() => expect(tools(page.chat().messages).map((part) => part.state)).toEqual(['output-available', 'approval-requested']));
    expect(page.network.posts).toBe(0);
    await act(() => page.chat().approve(tools(page.chat().messages)[1]!.toolCallId));
    await page.says('You picked green. Deleted /tmp/x.');
    expect(page.network.posts).toBe(1);
  });

  test('an answer in one page is seen in the other', async () => {
    const one = open(id, { pollAnswers: 50 });
    await one.send('scenario:approval');
    await until(() => expect(tools(one.chat().messages)[0]?.state).toBe('approval-requested'));
    await until(() => expect(one.chat().status).toBe('ready'));
    const two = open(id);
    await until(() => expect(tools(two.chat().messages)[0]?.state).toBe('approval-requested'));
    await act(() => two.chat().approve(tools(two.chat().messages)[0]!.toolCallId));
    await two.says('Deleted /tmp/x.');
    await one.says('Deleted /tmp/x.');
    expect(one.network.posts).toBe(1);
  });

  test('a page that is reloaded in the middle shows each word once', async () => {
    const page = open(id);
    await page.send('scenario:slow n=30 ms=20');
    await until(() => expect(wordsOf(page.chat().messages).at(-1)).toContain('w5'));
    page.unmount();
    const again = open(id);
    await until(() => expect(wordsOf(again.chat().messages).at(-1)).toContain('w5'));
    await again.says(slow(30));
    expect(again.chat().messages).toHaveLength(2);
  });

  test('a page that loses its connection shows each word once', async () => {
    const page = open(id);
    await page.send('scenario:slow n=40 ms=20');
    for (const word of ['w5', 'w12', 'w20']) {
      await until(() => expect(wordsOf(page.chat().messages).at(-1)).toContain(word));
      act(() => page.network.cut());
      await until(() => expect(page.chat().status).toBe('error'));
      act(() => void page.chat().retry());
    }
    await page.says(slow(40));
    expect(page.network.cursors).toHaveLength(3);
    expect(page.network.cursors.every((cursor) => Number(cursor) > 0)).toBe(true);
  });

  test('stop ends the run', async () => {
    const page = open(id);
    await page.send('scenario:slow n=400 ms=20');
    await until(() => expect(wordsOf(page.chat().messages).at(-1)).toContain('w5'));
    await act(() => page.chat().stop());
    expect(page.chat().status).toBe('ready');
    await until(async () => expect((await page.chat().loadSnapshot())?.status).not.toBe('active'));
    await page.send('scenario:text');
    await page.says('Echo: hello world');
  });

  test('stop right after sending ends the run', async () => {
    const page = open(id);
    await page.send('scenario:slow n=400 ms=20');
    await until(() => expect(page.chat().status).toBe('submitted'));
    await act(() => page.chat().stop());
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect((await page.chat().loadSnapshot())?.status).not.toBe('active');
  });

  test('a failure of the model is shown with its code', async () => {
    const page = open(id);
    await page.send('scenario:error');
    await until(() => expect(page.chat().status).toBe('error'));
    expect(page.chat().error).toMatchObject({ name: 'HelixStreamError', message: expect.stringContaining('scripted failure') });
    act(() => void page.chat().retry());
    await until(() => expect(page.network.posts).toBe(2));
    await until(() => expect(page.chat().error?.message).toContain('scripted failure'));
    expect(page.chat().messages.filter(({ role }) => role === 'user')).toHaveLength(1);
    page.unmount();
    const again = open(id);
    await until(() => expect(again.chat().error?.message).toContain('scripted failure'));
  });

  test('a refused request is a typed error', async () => {
    const page = open(id, { agentType: 'nobody-has-this' });
    await page.send('scenario:text');
    await until(() => expect(page.chat().error).toMatchObject({ name: 'HelixHttpError', code: expect.any(String) }));
  });
});
