import { useSyncExternalStore } from "react";

/** What is open over the page. */
export type Overlay = "palette" | "keys" | "rail" | null;

let overlay: Overlay = null;
const listeners = new Set<() => void>();

export function show(next: Overlay) {
  overlay = next;
  listeners.forEach((one) => one());
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};

export const useOverlay = (): Overlay => useSyncExternalStore(subscribe, () => overlay);
