import { useCallback, useEffect, useRef, useState } from 'react';
import { readSnapshot } from '../transport.js';
import type { DataPart, HelixUIMessage, Snapshot } from '../wire.js';
import { useLatest } from './latest.js';

/** The server says that what the page shows of the bubble in flight is no longer right. */
export interface ResyncEvent extends DataPart {
  data: { reason: string };
}

type Data = readonly DataPart[];

/** Calls back once for each `data-stream-resync`. `data` is that of `useHelixChat` or of `useDataParts`. */
export function useStreamResync(data: Data, onResync: (event: ResyncEvent) => void): void {
  const seen = useRef(new WeakSet<DataPart>());
  const latest = useLatest(onResync);
  useEffect(() => {
    for (const part of data) {
      if (part.type !== 'data-stream-resync' || seen.current.has(part)) continue;
      seen.current.add(part);
      latest.current(part as ResyncEvent);
    }
  }, [data, latest]);
}

/** Counts resyncs, and does nothing about them. */
export function useResyncState(data: Data): {
  hasResynced: boolean;
  resyncCount: number;
  lastResync: ResyncEvent | undefined;
} {
  const [state, setState] = useState<{ resyncCount: number; lastResync: ResyncEvent | undefined }>({
    resyncCount: 0,
    lastResync: undefined,
  });
  useStreamResync(data, (event) =>
    setState(({ resyncCount }) => ({ resyncCount: resyncCount + 1, lastResync: event })),
  );
  return { ...state, hasResynced: state.resyncCount > 0 };
}

/** Where the snapshot comes from: `useHelixChat` has `loadSnapshot`; else its address. */
export interface SnapshotSource<State = unknown> {
  loadSnapshot?: () => Promise<Snapshot<State> | null>;
  snapshotUrl?: string;
  headers?: Record<string, string>;
  fetch?: typeof fetch;
}

async function load<State>(source: SnapshotSource<State>, query = ''): Promise<Snapshot<State> | null> {
  if (source.loadSnapshot && query === '') return source.loadSnapshot();
  if (source.snapshotUrl === undefined) throw new Error('a snapshot needs loadSnapshot or snapshotUrl');
  const { fetch = globalThis.fetch } = source;
  return readSnapshot(await fetch(source.snapshotUrl + query, { headers: source.headers }));
}

export interface AutoResyncOptions<State = unknown> extends SnapshotSource<State> {
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the chat may have its own type of messages
  setMessages: (messages: any) => void;
  /** Closes the stream without stopping the run: `closeStream` of `useHelixChat`, `stop` of `useChat`. */
  closeStream?: () => unknown;
  /** Follows the run again. Without it the bubble in flight stays away, which a snapshot leaves out. */
  resumeStream?: () => unknown;
  onSnapshotLoaded?: (snapshot: Snapshot<State>) => void;
  onResync?: (event: ResyncEvent) => void;
  onError?: (error: unknown) => void;
}

function show<State>(snapshot: Snapshot<State>, options: AutoResyncOptions<State>): void {
  options.setMessages(snapshot.messages as HelixUIMessage[]);
  options.onSnapshotLoaded?.(snapshot);
}

/** Answers each resync: closes the stream, loads the snapshot, and follows the run anew. */
export function useAutoResync<State = unknown>(data: Data, options: AutoResyncOptions<State>): void {
  const latest = useLatest(options);
  const turn = useRef(0);
  useEffect(() => () => void turn.current++, []);
  useStreamResync(data, async (event) => {
    const mine = ++turn.current;
    try {
      latest.current.onResync?.(event);
      await latest.current.closeStream?.();
      const snapshot = await load(latest.current);
      if (mine !== turn.current) return;
      if (snapshot) show(snapshot, latest.current);
      // Even if the run is over by now: this page has not seen its end, which may be an error.
      await latest.current.resumeStream?.();
    } catch (error) {
      latest.current.onError?.(error);
    }
  });
}

export interface SnapshotState<State = unknown> {
  snapshot: Snapshot<State> | null;
  isLoading: boolean;
  error: unknown;
}

const LOADING = { snapshot: null, isLoading: true, error: undefined };

function useLoaded<State>(
  key: string,
  work: () => Promise<Snapshot<State> | null>,
  onLoaded?: (snapshot: Snapshot<State>) => void,
): SnapshotState<State> {
  const [state, setState] = useState<SnapshotState<State> & { key: string }>({ ...LOADING, key });
  const latest = useLatest({ work, onLoaded });
  useEffect(() => {
    let over = false;
    setState({ ...LOADING, key });
    latest.current.work().then(
      (snapshot) => {
        if (over) return;
        if (snapshot) latest.current.onLoaded?.(snapshot);
        setState({ snapshot, isLoading: false, error: undefined, key });
      },
      (error: unknown) => {
        if (!over) setState({ snapshot: null, isLoading: false, error, key });
      },
    );
    return () => {
      over = true;
    };
  }, [key, latest]);
  return state.key === key ? state : LOADING;
}

/** Loads the snapshot at a checkpoint. */
export function useCheckpointSnapshot<State = unknown>(
  options: SnapshotSource<State> & { snapshotUrl: string; checkpointId: string },
): SnapshotState<State> {
  const { snapshotUrl, checkpointId } = options;
  return useLoaded(`${snapshotUrl} ${checkpointId}`, async () => {
    const snapshot = await load<State>(options, `?checkpointId=${encodeURIComponent(checkpointId)}`);
    if (snapshot && snapshot.checkpointId !== checkpointId) {
      throw new Error(`the server has no snapshot at checkpoint ${checkpointId}`);
    }
    return snapshot;
  });
}

/**
 * Shows a session after the page was loaded: its finished messages from the snapshot, the bubble in flight from the
 * stream. Answers resyncs, too. With `useHelixChat` all it needs is `useResumableChat(chat.data, chat)`.
 */
export function useResumableChat<State = unknown>(
  data: Data,
  options: AutoResyncOptions<State> & { id?: string },
): SnapshotState<State> & ReturnType<typeof useResyncState> {
  const latest = useLatest(options);
  const key = options.id ?? options.snapshotUrl ?? '';
  const loaded = useLoaded<State>(
    key,
    useCallback(() => load(latest.current), [latest]),
    (snapshot) => {
      show(snapshot, latest.current);
      // The stream of a failed run ends with its error, which the page shows like one that it has seen happen.
      if (snapshot.status !== 'ended') void latest.current.resumeStream?.();
    },
  );
  useAutoResync(data, options);
  return { ...loaded, ...useResyncState(data) };
}
