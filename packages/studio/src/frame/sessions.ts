import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";

import { pendingQuery, sessionsQuery } from "../api/queries";
import type { PendingCall, Session } from "../api/types";

export type DotState = "running" | "waiting" | "done" | "failed" | "stopped";

/** The state of a session in a list: one that waits for a person is active on the server. */
export function dotOf(session: Session, waiting: Set<string>): DotState {
  if (waiting.has(session.sessionId)) return "waiting";
  switch (session.status) {
    case "active":
      return "running";
    case "completed":
      return "done";
    case "failed":
      return "failed";
    default:
      return "stopped";
  }
}

export const rootsOf = (pending: PendingCall[]): Set<string> => new Set(pending.map((call) => call.rootSessionId));

export const usePending = (): PendingCall[] => useQuery(pendingQuery).data?.pending ?? none;
const none: PendingCall[] = [];

/** The sessions that were not begun by another one, the latest first, and how to get more. */
export function useSessions() {
  const query = useInfiniteQuery(sessionsQuery);
  const sessions = useMemo(() => {
    const all = new Map<string, Session>();
    for (const page of query.data?.pages ?? []) {
      for (const one of page.items) if (!one.parentSessionId && !all.has(one.sessionId)) all.set(one.sessionId, one);
    }
    return [...all.values()].sort((one, other) => other.updatedAt - one.updatedAt);
  }, [query.data]);
  return { ...query, sessions };
}
