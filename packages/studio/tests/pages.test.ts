import { describe, expect, it, vi } from "vitest";

import { allOf } from "../src/api/pages";

describe("a list in pages", () => {
  const list = Array.from({ length: 7 }, (_, at) => at);
  const of = (sizes: number[]) => vi.fn(async (offset: number) => ({ items: list.slice(offset, offset + (sizes.shift() ?? 1)), hasMore: offset + 1 < list.length }));

  it("is read to its end, however long each page is", async () => {
    const page = of([3, 1, 3]);
    expect(await allOf(page)).toEqual(list);
    expect(page.mock.calls).toEqual([[0], [3], [4], [7]]);
  });

  it("ends where the server has no more, or nothing", async () => {
    expect(await allOf(async () => ({ items: [1], hasMore: false }))).toEqual([1]);
    expect(await allOf(async () => ({ items: [], hasMore: true }))).toEqual([]);
  });

  it("has an end", async () => {
    const page = vi.fn(async () => ({ items: [1], hasMore: true }));
    expect(await allOf(page)).toHaveLength(50);
  });
});
