// Whether the server can be reached. Every request reports here; once one got no answer, the server is asked again
// and again until it answers.

import { useSyncExternalStore } from "react";

const RETRY_MS = 1000;

let lostSince: number | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;
const listeners = new Set<() => void>();
const whenBack = new Set<() => void>();

const tell = () => listeners.forEach((one) => one());

export function reportAnswer() {
  if (lostSince === null) return;
  lostSince = null;
  clearTimeout(timer);
  tell();
  whenBack.forEach((one) => one());
}

export function reportLoss() {
  if (lostSince !== null) return;
  lostSince = Date.now();
  tell();
  timer = setTimeout(ask, RETRY_MS);
}

async function ask() {
  if (!(await isReachable())) timer = setTimeout(ask, RETRY_MS);
}

/** Asks the server whether it is there. */
export async function isReachable(): Promise<boolean> {
  try {
    const answer = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(5000) });
    if (!answer.ok) throw new Error("not ready");
    reportAnswer();
    return true;
  } catch {
    reportLoss();
    return false;
  }
}

/** Calls back whenever the server is there again; returns how to end that. */
export function onceBack(callback: () => void): () => void {
  whenBack.add(callback);
  return () => {
    whenBack.delete(callback);
  };
}

/** `fetch`, which reports whether there was an answer. */
export const watchedFetch: typeof fetch = async (input, init) => {
  try {
    const answer = await fetch(input, init);
    // A proxy in between answers for a server that is gone.
    if (answer.status === 502 || answer.status === 504) reportLoss();
    else reportAnswer();
    return answer;
  } catch (error) {
    if (!init?.signal?.aborted) reportLoss();
    throw error;
  }
};

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Since when the server is gone; `null` while it is there. */
export const useLostSince = (): number | null => useSyncExternalStore(subscribe, () => lostSince);
