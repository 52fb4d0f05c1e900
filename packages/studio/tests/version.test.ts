import { afterEach, describe, expect, it, vi } from "vitest";

import { isReplaced, scriptOf } from "../src/api/version";

const page = (name: string) => `<!doctype html><head><script type="module" crossorigin src="/studio/${name}"></script></head>`;

describe("another version of the server", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("is known by the name of the script", () => {
    expect(scriptOf(page("studio-abc.js"))).toBe("studio-abc.js");
    expect(scriptOf("<p>Sign in</p>")).toBeUndefined();
  });

  it("is told only by a page that names another script", async () => {
    const own = "http://127.0.0.1:8787/studio/studio-abc.js?x";
    const answers: [Response | Error, boolean][] = [
      [new Response(page("studio-abc.js")), false],
      [new Response(page("studio-def.js")), true],
      [new Response("<p>Sign in</p>"), false],
      [new Response(page("studio-def.js"), { status: 503 }), false],
      [new TypeError("gone"), false],
    ];
    for (const [answer, is] of answers) {
      const fetch = vi.fn(async () => {
        if (answer instanceof Error) throw answer;
        return answer;
      });
      vi.stubGlobal("fetch", fetch);
      expect(await isReplaced(own)).toBe(is);
      expect(fetch).toHaveBeenCalledWith("/", expect.objectContaining({ cache: "no-store" }));
    }
  });
});

describe("what is typed", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("is there once more after the page was loaded anew", async () => {
    const kept = new Map<string, string>([["helix.kept", JSON.stringify([["form s c", { name: "Ada" }]])]]);
    vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
    vi.resetModules();
    const { keepOver } = await import("../src/lib/stored");
    expect(kept.size).toBe(0);
    keepOver();
    expect(JSON.parse(kept.get("helix.kept") ?? "")).toEqual([["form s c", { name: "Ada" }]]);
  });
});
