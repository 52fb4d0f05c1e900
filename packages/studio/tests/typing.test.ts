import { afterEach, describe, expect, it, vi } from "vitest";

import { isComposing, isTyping, takesKeys } from "../src/lib/typing";

/** A key pressed on a control, which is found as `closest` would. */
function press(control: { tagName: string; type?: string } | null, more: Partial<KeyboardEvent> = {}) {
  vi.stubGlobal("document", { querySelector: () => null });
  const closest = (selector: string) => (selector.startsWith("input") ? control : null);
  return isTyping({ target: { closest }, ctrlKey: false, metaKey: false, altKey: false, defaultPrevented: false, ...more } as unknown as KeyboardEvent);
}

describe("keys", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("are typed into texts and choices", () => {
    expect([{ tagName: "INPUT", type: "text" }, { tagName: "INPUT", type: "search" }, { tagName: "INPUT", type: "radio" }, { tagName: "TEXTAREA", type: "textarea" }, { tagName: "SELECT" }, { tagName: "DIV" }].every(takesKeys)).toBe(true);
    expect(press({ tagName: "INPUT", type: "text" })).toBe(true);
  });

  it("are not for the page while characters are put together", () => {
    expect([{ isComposing: true, keyCode: 27 }, { isComposing: false, keyCode: 229 }].every(isComposing)).toBe(true);
    expect(isComposing({ isComposing: false, keyCode: 27 })).toBe(false);
  });

  it("are commands on a checkbox, and elsewhere", () => {
    expect(takesKeys({ tagName: "INPUT", type: "checkbox" })).toBe(false);
    expect(press({ tagName: "INPUT", type: "checkbox" })).toBe(false);
    expect(press(null)).toBe(false);
    expect(press(null, { ctrlKey: true })).toBe(true);
  });
});
