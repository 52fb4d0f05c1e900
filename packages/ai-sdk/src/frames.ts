/** What becomes of a body: it came to its end, the connection was lost, or the reader went away. */
export type Ending = 'finished' | 'lost' | 'left';

export interface FrameListener {
  /** Whether the frames of a chunk are kept back until the last one, which has the `id:`, is there. */
  hold(): boolean;
  /** A frame with this id has been handed on. */
  onId(id: string): void;
  onEnd(ending: Ending): void;
}

/** The message by which every version of the chat knows a lost connection, after which it can continue. */
export const LOST = 'network error: the connection was lost';

/**
 * Cuts a body of server-sent events into its frames and hands on one at a time, when it is asked for, so that nothing
 * is queued behind it: what has been handed on reaches the chat even if the connection then breaks, and the last id
 * is that of the last chunk that the chat has seen. A chunk whose end is missing is not handed on.
 *
 * A body that ends without `[DONE]` was cut off, however cleanly.
 */
export function readFrames(
  body: ReadableStream<Uint8Array>,
  listener: FrameListener,
  signal?: AbortSignal | null,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  const ready: Frame[] = [];
  let held: Frame[] = [];
  let text = '';
  let done = false;
  let failure: unknown;
  let over = false;

  const take = (frame: Frame) => {
    if (frame.data === undefined && frame.id === undefined) return;
    held.push(frame);
    if (frame.data === '[DONE]') done = true;
    if (done || frame.id !== undefined || !listener.hold()) {
      ready.push(...held);
      held = [];
    }
  };

  const read = async () => {
    try {
      const { done: ended, value } = await reader.read();
      over = ended;
      text += decoder.decode(value, { stream: !ended });
    } catch (error) {
      over = true;
      failure = error;
    }
    text = text.replace(/\r\n/g, '\n');
    let end: number;
    while ((end = text.indexOf('\n\n')) !== -1) {
      take(parseFrame(text.slice(0, end)));
      text = text.slice(end + 2);
    }
  };

  let ending: Ending | undefined;
  const end = (how: Ending) => {
    // A read that was under way when the reader went away comes to an end, too.
    if (ending === undefined) listener.onEnd((ending = how));
  };

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        let frame: Frame | undefined;
        do {
          while (ready.length === 0 && !over) await read();
          frame = ready.shift();
          if (frame?.id !== undefined) listener.onId(frame.id);
        } while (frame && frame.data === undefined);
        if (frame) {
          controller.enqueue(encoder.encode(`data: ${frame.data}\n\n`));
        } else if (done) {
          end('finished');
          controller.close();
        } else if (signal?.aborted) {
          end('left');
          controller.error(failure ?? signal.reason);
        } else {
          end('lost');
          controller.error(new TypeError(LOST, { cause: failure }));
        }
      },
      cancel(reason) {
        end('left');
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

interface Frame {
  id?: string;
  data?: string;
}

function parseFrame(text: string): Frame {
  const frame: Frame = {};
  for (const line of text.split('\n')) {
    const value = (name: string) => line.slice(name.length).replace(/^ /, '');
    if (line.startsWith('data:')) {
      frame.data = frame.data === undefined ? value('data:') : `${frame.data}\n${value('data:')}`;
    } else if (line.startsWith('id:')) {
      frame.id = value('id:');
    }
  }
  return frame;
}
