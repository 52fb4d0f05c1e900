import { expect, test } from 'vitest';
import { readFrames, type Ending } from '../src/frames.js';

async function read(pieces: (string | Error)[], hold = true) {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces.shift();
      if (piece === undefined) controller.close();
      else if (piece instanceof Error) controller.error(piece);
      else controller.enqueue(encoder.encode(piece));
    },
  });
  const ids: string[] = [];
  const endings: Ending[] = [];
  const frames: string[] = [];
  const stream = readFrames(body, {
    hold: () => hold,
    onId: (id) => ids.push(id),
    onEnd: (ending) => endings.push(ending),
  });
  let error: unknown;
  // A reader that is late: what came before the end still reaches it.
  await new Promise((resolve) => setTimeout(resolve, 5));
  try {
    for await (const frame of stream as unknown as AsyncIterable<Uint8Array>) {
      frames.push(new TextDecoder().decode(frame).replace(/^data: |\n\n$/g, ''));
    }
  } catch (caught) {
    error = caught;
  }
  return { frames, ids, endings, error };
}

test('frames come whole, however the bytes are cut', async () => {
  const all = ': hi\r\n\r\nid: 1\r\ndata: "é"\r\n\r\nevent: x\ndata:a\ndata: b\nid:2\n\nid: 3\n\ndata: [DONE]\n\n';
  for (const size of [1, 2, 3, 7, 1000]) {
    const pieces = all.match(new RegExp(`[^]{1,${size}}`, 'g'))!;
    expect(await read(pieces)).toEqual({
      frames: ['"é"', 'a\nb', '[DONE]'],
      ids: ['1', '2', '3'],
      endings: ['finished'],
      error: undefined,
    });
  }
});

test('a chunk whose last frame is missing is not handed on', async () => {
  const { frames, ids, endings, error } = await read(['data: 1\n\nid: 5\ndata: 2\n\ndata: 3\n\n', new Error('reset')]);
  expect(frames).toEqual(['1', '2']);
  expect(ids).toEqual(['5']);
  expect(endings).toEqual(['lost']);
  expect(error).toBeInstanceOf(TypeError);
  expect((error as Error).message).toContain('network');
});

test('without ids nothing is kept back', async () => {
  expect((await read(['data: 1\n\n', new Error('reset')], false)).frames).toEqual(['1']);
});

test('a body that ends before its end was cut off', async () => {
  const { frames, endings, error } = await read(['id: 1\ndata: 1\n\n']);
  expect({ frames, endings }).toEqual({ frames: ['1'], endings: ['lost'] });
  expect(error).toBeInstanceOf(TypeError);
});

test('a reader that goes away while it waits has lost nothing', async () => {
  const endings: Ending[] = [];
  const body = new ReadableStream<Uint8Array>();
  const reader = readFrames(body, { hold: () => true, onId: () => {}, onEnd: (ending) => endings.push(ending) }).getReader();
  const waiting = reader.read();
  await new Promise((resolve) => setTimeout(resolve, 5));
  await reader.cancel();
  expect(await waiting).toMatchObject({ done: true });
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(endings).toEqual(['left']);
});
