import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";

import { patternOf } from "../src/lib/json-search";
import { JsonView } from "../src/ui/JsonView";
import { Visible } from "../src/ui/Visible";

const drawn = (value: unknown) => renderToStaticMarkup(createElement(JsonView, { value, label: "input" }));

describe("the JSON viewer, drawn", () => {
  it("has a search for large values and long texts only", () => {
    const large = Array.from({ length: 60 }, (_, at) => ({ at }));
    expect([large, "x".repeat(1500), { text: "x".repeat(1500) }].every((value) => drawn(value).includes("Search input"))).toBe(true);
    expect([{ a: 1 }, "short", null, []].some((value) => drawn(value).includes("Search input"))).toBe(false);
  });

  it("marks matches, one of them as the current one", () => {
    const html = renderToStaticMarkup(createElement(Visible, { text: "red and red", search: { pattern: patternOf("RED"), most: 5, current: 1 } }));
    expect(html.match(/<mark/g)).toHaveLength(2);
    expect(html).toMatch(/<mark[^>]*json-match[^>]*>red<\/mark><\/bdi>$/);
  });
});
