import { afterEach, describe, expect, it, vi } from "vitest";

import { durationsQuery, pendingQuery, queries, runsQuery } from "../src/api/queries";

/** A server whose lists have so many items, in pages as long as they are asked for. */
function server(total: number, answer: (items: { at: number }[], total: number, hasMore: boolean) => unknown) {
  const fetch = vi.fn(async (path: string) => {
    const query = new URL(path, "http://server").searchParams;
    const [offset, limit] = [Number(query.get("offset")), Number(query.get("limit"))];
    const items = Array.from({ length: Math.min(limit, Math.max(0, total - offset)) }, (_, index) => ({ at: offset + index }));
    return Response.json(answer(items, total, offset + items.length < total));
  });
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

describe("lists", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
    queries.clear();
  });

  it("of what waits are whole", async () => {
    const fetch = server(450, (items, total) => ({ pending: items.map(({ at }) => ({ toolCallId: `c${at}`, rootSessionId: "s" })), total }));
    const { pending } = await queries.fetchQuery(pendingQuery);
    expect(pending).toHaveLength(450);
    expect(pending.at(-1)?.toolCallId).toBe("c449");
    expect(fetch).toHaveBeenCalledTimes(3);
  });

  it("of what waits have an end, and nothing twice", async () => {
    const fetch = server(1e6, (items, total) => ({ pending: items.map(({ at }) => ({ toolCallId: `c${at % 300}`, rootSessionId: "s" })), total }));
    expect((await queries.fetchQuery(pendingQuery)).pending).toHaveLength(300);
    expect(fetch).toHaveBeenCalledTimes(10);
  });

  it("of runs and of usage are whole", async () => {
    server(2500, (items, total, hasMore) => ({ items: items.map(({ at }) => ({ runId: `r${at}` })), total, hasMore }));
    expect((await queries.fetchQuery(runsQuery("s"))).at(-1)?.runId).toBe("r2499");
    server(1200, (items, _, hasMore) => ({ entries: items.map(({ at }) => ({ id: `c${at}:0`, kind: "tool", durationMs: at })), hasMore }));
    expect((await queries.fetchQuery(durationsQuery("s"))).get("c1199")).toBe(1199);
  });
});
