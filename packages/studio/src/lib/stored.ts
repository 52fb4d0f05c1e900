// Values that outlive a reload, or a component. Where the browser keeps nothing they live as long as the page.

import { useSyncExternalStore } from "react";

const kept = new Map<string, string>();
const listeners = new Set<() => void>();

function read(key: string): string {
  const here = kept.get(key);
  if (here !== undefined) return here;
  try {
    return localStorage.getItem(key) ?? "";
  } catch {
    return "";
  }
}

export function write(key: string, value: string) {
  kept.set(key, value);
  try {
    if (value) localStorage.setItem(key, value);
    else localStorage.removeItem(key);
  } catch {
    // It is kept in memory.
  }
  listeners.forEach((one) => one());
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

export const readStored = (key: string) => read(key);

/** A text under a key, and how to change it. */
export function useStored(key: string): [string, (value: string) => void] {
  const value = useSyncExternalStore(subscribe, () => read(key));
  return [value, (next) => write(key, next)];
}

const OVER = "helix.kept";
const memory = new Map<string, unknown>(takeOver());

/** Keeps the values of `useKept` over the next load of the page. */
export function keepOver() {
  try {
    sessionStorage.setItem(OVER, JSON.stringify([...memory]));
  } catch {
    // The browser keeps nothing.
  }
}

/** The values that were kept over the load of the page; they are taken once. */
function takeOver(): [string, unknown][] {
  try {
    const values = JSON.parse(sessionStorage.getItem(OVER) ?? "[]") as [string, unknown][];
    sessionStorage.removeItem(OVER);
    return values;
  } catch {
    return [];
  }
}

/** A value under a key that lives as long as the page, whatever is drawn meanwhile. */
export function useKept<T>(key: string, initial: T): [T, (value: T) => void] {
  const value = useSyncExternalStore(subscribe, () => (memory.has(key) ? (memory.get(key) as T) : initial));
  const set = (next: T) => {
    memory.set(key, next);
    listeners.forEach((one) => one());
  };
  return [value, set];
}
