import { describe, expect, it } from "vitest";

import { countOf, equal, firstParts, inside, isFoldable, opensAt, size, textOf } from "../src/lib/json";
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
