import { QueryClient, infiniteQueryOptions, queryOptions, useQuery } from "@tanstack/react-query";

import { globalKey } from "../lib/pending";
import { titleOf } from "../lib/summary";
import { ApiError, get } from "./client";
import { onceBack } from "./connection";
import { type Page, allOf } from "./pages";
import type { Agent, Agents, PendingCall, Run, Session, Snapshot, Status, Tool, UsageEntry } from "./types";

const PAGE = 50;
/** The longest page of the lists that are read as a whole. */
const LONGEST = 1000;
const LISTS_MS = 3000;
/** The longest page of pending calls, and how many of them are read. */
const PENDING = 200;
const PENDING_PAGES = 10;

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (count, error) => !(error instanceof ApiError && error.status < 500) && count < 2,
      networkMode: "always",
      refetchOnWindowFocus: true,
      staleTime: 1000,
    },
  },
});

onceBack(() => void queries.invalidateQueries());

type List<T> = Page<T> & { total: number };

const session = (id: string) => `/sessions/${encodeURIComponent(id)}`;

export const agentsQuery = queryOptions({
  queryKey: ["agents"],
  queryFn: () => get<Agents>("/agents"),
  staleTime: 60_000,
});

export const sessionsQuery = infiniteQueryOptions({
  queryKey: ["sessions"],
  queryFn: ({ pageParam }) => get<List<Session>>(`/sessions?limit=${PAGE}&offset=${pageParam}`),
  initialPageParam: 0,
  getNextPageParam: (last, pages) => (last.hasMore ? pages.length * PAGE : undefined),
  refetchInterval: LISTS_MS,
});

export const sessionQuery = (id: string) =>
  queryOptions({ queryKey: ["session", id], queryFn: () => get<Session>(session(id)), staleTime: 30_000 });

export const pendingQuery = queryOptions({
  queryKey: ["pending"],
  queryFn: async () => {
    const all = await allOf(async (offset) => {
      const { pending, total } = await get<{ pending: PendingCall[]; total: number }>(`/pending?limit=${PENDING}&offset=${offset}`);
      return { items: pending, hasMore: offset + pending.length < total };
    }, PENDING_PAGES);
    // What is answered meanwhile moves the others from page to page.
    return { pending: [...new Map(all.map((call) => [globalKey(call), call])).values()] };
  },
  refetchInterval: (query) => ((query.state.data?.pending.length ?? 0) > PENDING ? 10_000 : 2000),
});

export const statusQuery = (id: string) =>
  queryOptions({ queryKey: ["status", id], queryFn: () => get<Status>(`/status?sessionId=${encodeURIComponent(id)}`), staleTime: 0 });

export const snapshotQuery = (id: string) =>
  queryOptions({
    queryKey: ["snapshot", id],
    queryFn: () => get<Snapshot>(`/api/chat/${encodeURIComponent(id)}/snapshot`),
    staleTime: 0,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });

export const runsQuery = (id: string) =>
  queryOptions({ queryKey: ["runs", id], queryFn: () => allOf((offset) => get<List<Run>>(`${session(id)}/runs?limit=${LONGEST}&offset=${offset}`)) });

type MessageView = { role: string; content?: string; metadata?: { hidden?: boolean } };

/** The first message of the user. It never changes, so it is asked for once. */
export const titleQuery = (id: string) =>
  queryOptions({
    queryKey: ["title", id],
    queryFn: async () => {
      const page = await get<{ messages: MessageView[] }>(`${session(id)}/messages?limit=3`);
      const first = page.messages.find((one) => one.role === "user" && !one.metadata?.hidden);
      return first?.content ? titleOf(first.content) : null;
    },
    staleTime: (query) => (query.state.data ? Number.POSITIVE_INFINITY : 5000),
    gcTime: Number.POSITIVE_INFINITY,
  });

/** How long each finished call of a session took, by the id of the call. */
export const durationsQuery = (id: string) =>
  queryOptions({
    queryKey: ["durations", id],
    queryFn: async () => {
      const entries = await allOf(async (offset) => {
        const page = await get<{ entries?: UsageEntry[]; hasMore?: boolean }>(`${session(id)}/usage?entries=true&limit=${LONGEST}&offset=${offset}`);
        return { items: page.entries ?? [], hasMore: page.hasMore ?? false };
      });
      const tools = entries.filter((one) => one.kind === "tool" && one.durationMs !== undefined);
      // The id of such an entry is the id of the call, and a number.
      return new Map(tools.map((one) => [one.id.replace(/:\d+$/, ""), one.durationMs ?? 0]));
    },
  });

export function useAgent(agentType: string | undefined): Agent | undefined {
  const { data } = useQuery(agentsQuery);
  return data?.agents.find((one) => one.agentType === agentType);
}

/** What is configured about a tool. It comes from the configuration, never from the model. */
export function useTool(agentType: string | undefined, name: string): Tool | undefined {
  return useAgent(agentType)?.tools.find((one) => one.name === name);
}
