import { describe, expect, it } from "vitest";

import { escaped, marked, segments } from "../src/lib/visible";

describe("visible characters", () => {
  it("shows characters that hide or reorder by their number", () => {
    expect(escaped("a\u202eb")).toBe("a\\u{202e}b");
    expect(escaped("zero\u200bwidth\u00ad")).toBe("zero\\u{200b}width\\u{ad}");
    expect(escaped("\u{e0041}tag \u2800 \u3164")).toBe("\\u{e0041}tag \\u{2800} \\u{3164}");
    expect(escaped("two\nlines")).toBe("two\\u{a}lines");
  });

  it("keeps what is asked for", () => {
    expect(escaped("two\nlines\u0007", "\n\t")).toBe("two\nlines\\u{7}");
  });

  it("keeps the selectors of pictures and keycaps, and no others", () => {
    expect(escaped("❤\ufe0f 1\ufe0f\u20e3 \u{1f600}")).toBe("❤\ufe0f 1\ufe0f\u20e3 \u{1f600}");
    expect(escaped("a\ufe0f 1\ufe0f")).toBe("a\\u{fe0f} 1\\u{fe0f}");
  });

  it("leaves other writing as it is", () => {
    for (const text of ["Grüße", "العربية", "日本語", "e\u0301"]) expect(escaped(text)).toBe(text);
  });

  it("marks what is searched for, with its number", () => {
    const all = segments("Red\u202ered x");
    expect(marked(all, /red/giu, 5)).toEqual([
      { text: "Red", hidden: false, mark: 0 },
      { text: "\\u{202e}", hidden: true },
      { text: "red", hidden: false, mark: 1 },
      { text: " x", hidden: false },
    ]);
    expect(marked(all, /red/giu, 1).filter((one) => one.mark !== undefined)).toHaveLength(1);
    expect(marked(all, /none/giu, 5)).toEqual(all);
  });

  it("tells which pieces are escapes", () => {
    expect(segments("a\u202e\\u{202e}")).toEqual([
      { text: "a", hidden: false },
      { text: "\\u{202e}", hidden: true },
      { text: "\\u{202e}", hidden: false },
    ]);
    expect(segments("")).toEqual([]);
  });
});
