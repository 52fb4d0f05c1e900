// Whether the server has another build of this page than the one that runs. The page that it serves names its script,
// whose name changes with its content.

import { useSyncExternalStore } from "react";

import { onceBack } from "./connection";

const EVERY_MS = 5 * 60_000;

let isOther = false;
const listeners = new Set<() => void>();

/** The name of the script that a page loads. */
export const scriptOf = (page: string): string | undefined => nameOf(page.match(/<script\b[^>]*\bsrc="([^"]+)"/)?.[1]);

const nameOf = (path: string | undefined): string | undefined => path?.split(/[?#]/, 1)[0]?.split("/").at(-1);

/** Asks the server whether its page loads another script than this one. */
export async function isReplaced(script: string): Promise<boolean> {
  try {
    const answer = await fetch("/", { cache: "no-store", headers: { accept: "text/html" } });
    const served = answer.ok ? scriptOf(await answer.text()) : undefined;
    return served !== undefined && served !== nameOf(script);
  } catch {
    // Another request tells when the server is gone.
    return false;
  }
}

/** Looks for another build when the server was gone, and every few minutes while the page is in sight. */
export function watchVersion(script: string) {
  const look = async () => {
    if (isOther || !(await isReplaced(script))) return;
    isOther = true;
    listeners.forEach((one) => one());
  };
  onceBack(() => void look());
  setInterval(() => {
    if (document.visibilityState === "visible") void look();
  }, EVERY_MS);
}

function subscribe(listener: () => void) {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Whether the server has another build of this page. */
export const useIsReplaced = (): boolean => useSyncExternalStore(subscribe, () => isOther);
