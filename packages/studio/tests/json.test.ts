import { describe, expect, it } from "vitest";

import { countOf, equal, firstParts, inside, isFoldable, laterParts, opensAt, size, textLength, textOf } from "../src/lib/json";
import { patternOf, search } from "../src/lib/json-search";
import { summary, titleOf } from "../src/lib/summary";

describe("the JSON viewer", () => {
  it("folds what has parts", () => {
    expect([{ a: 1 }, [1]].every(isFoldable)).toBe(true);
    expect([{}, [], null, "text", 1, undefined].some(isFoldable)).toBe(false);
    expect(inside({ a: 1 })).toBe("1 key");
    expect(inside([1, 2])).toBe("2 items");
  });

  it("counts values only up to its limit", () => {
    expect(size({ a: [1, 2, { b: 3 }] }, 100)).toBe(6);
    const million = Array.from({ length: 1e6 }, (_, at) => at);
    expect(size(million, 40)).toBe(40);
    let looked = 0;
    const watched = new Proxy(million, { get: (all, name, self) => ((looked += Number(/^\d+$/.test(String(name)))), Reflect.get(all, name, self)) });
    expect(size(watched, 40)).toBe(40);
    expect(looked).toBeLessThan(50);
    expect(opensAt(3, true)).toBe(true);
    expect(opensAt(0, false)).toBe(true);
    expect(opensAt(1, false)).toBe(false);
  });

  it("shows the first parts of a value with their names", () => {
    expect(firstParts([7, 8, 9], 2)).toEqual([["0", 7], ["1", 8]]);
    expect(firstParts({ a: 1, b: 2 }, 5)).toEqual([["a", 1], ["b", 2]]);
    expect([countOf([7, 8, 9]), countOf({ a: 1 })]).toEqual([3, 1]);
  });

  it("knows a copy from another value", () => {
    const value = { a: [1, { b: "x" }], c: null, d: undefined };
    expect(equal(value, structuredClone(value))).toBe(true);
    expect(equal({ ...value, c: 1 }, value)).toBe(false);
    expect(equal({ a: undefined }, { b: undefined })).toBe(false);
    expect(equal([1, 2], [1])).toBe(false);
    expect(equal([], {})).toBe(false);
    expect(equal(null, {})).toBe(false);
    expect(equal(Number.NaN, Number.NaN)).toBe(true);
  });

  it("copies a text as it is, and anything else as JSON", () => {
    expect(textOf("a\nb")).toBe("a\nb");
    expect(textOf({ a: 1 })).toBe('{\n  "a": 1\n}');
  });
});

describe("the search in a value", () => {
  const value = { order: { id: "A/1", items: [{ name: "Red box" }, { name: "blue" }] }, "re~d": 7, note: null };

  it("finds names and values in the order in which they are shown", () => {
    const found = search(value, patternOf("r"));
    expect(found.total).toBe(4);
    expect([...found.names]).toEqual([
      ["/order", { from: 0, count: 2 }],
      ["/re~0d", { from: 3, count: 1 }],
    ]);
    expect([...found.values]).toEqual([["/order/items/0/name", { from: 2, count: 1 }]]);
  });

  it("knows what is to be unfolded", () => {
    const found = search(value, patternOf("BLUE"));
    expect([...found.values]).toEqual([["/order/items/1/name", { from: 0, count: 1 }]]);
    expect([...found.holders]).toEqual(["/order/items/1", "/order/items", "/order", ""]);
    expect(found.touched.has("/order/items/1/name")).toBe(true);
    expect(search(value, patternOf("nowhere")).holders.size).toBe(0);
  });

  it("takes what is searched for as it is written", () => {
    expect(search({ a: "1.5 (*)" }, patternOf(".5 (*)")).total).toBe(1);
    expect(search("a\nb a", patternOf("A")).values.get("")).toEqual({ from: 0, count: 2 });
    expect([search({ a: true }, patternOf("tru")).total, search({ a: null }, patternOf("null")).total, search([5, 15], patternOf("5")).total]).toEqual([1, 1, 2]);
    expect(search(["x"], patternOf("0")).total).toBe(0);
  });

  it("has an end", () => {
    const found = search(Array.from({ length: 500 }, () => "x"), patternOf("x"), 20);
    expect([found.total, found.isMore]).toEqual([20, true]);
  });

  it("shows what it finds further on", () => {
    expect(laterParts([7, 8, 9], 1, (name) => name === "2")).toEqual([["2", 9]]);
    expect(laterParts({ a: 1, b: 2 }, 1, () => true)).toEqual([["b", 2]]);
    expect([textLength("abc"), textLength({ a: ["ab", 1], b: "c" }), textLength(null)]).toEqual([3, 3, 0]);
  });
});

describe("summaries", () => {
  it("are one line without hidden characters", () => {
    expect(summary({ order: "42", cents: 1999, deep: { a: [1] } })).toBe('order: 42 · cents: 1999 · deep: {"a":[1]}');
    expect(summary({ path: "a\nb\u202e" })).toBe("path: a\\u{a}b\\u{202e}");
    expect(summary("x".repeat(500))).toHaveLength(201);
    expect([undefined, null].map(summary)).toEqual(["", ""]);
  });

  it("titles are the first line", () => {
    expect(titleOf("  Refund me\nplease")).toBe("Refund me");
  });
});
