import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

/** The page anew, with what its browser keeps. */
async function reload() {
  vi.resetModules();
  return { ...(await import("../src/conversation/first")), ...(await import("../src/lib/stored")) };
}

describe("a first message that was not sent", () => {
  const kept = new Map<string, string>();

  beforeEach(() => {
    kept.clear();
    vi.stubGlobal("localStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
  });
  afterEach(() => vi.unstubAllGlobals());

  it("is in the draft after a reload, for the same agent", async () => {
    const id = (await reload()).begin("shop", "Refund 42");
    const page = await reload();
    expect(page.begunHere(id)).toBeUndefined();
    expect(page.startOf(id)).toEqual({ agentType: "shop", text: "Refund 42" });
    expect(page.takeBack(id)?.agentType).toBe("shop");
    expect(page.readStored(page.draftKey(id))).toBe("Refund 42");
  });

  it("comes back once, before what was written since", async () => {
    const page = await reload();
    const id = page.begin("shop", "Refund 42");
    page.write(page.draftKey(id), "please");
    page.takeBack(id);
    expect(page.readStored(page.draftKey(id))).toBe("Refund 42\nplease");
    page.write(page.draftKey(id), "");
    expect(page.takeBack(id)).toEqual({ agentType: "shop", text: "" });
    expect(page.readStored(page.draftKey(id))).toBe("");
  });

  it("is not put twice where the composer has it already", async () => {
    const page = await reload();
    const id = page.begin("shop", "Refund 42");
    page.write(page.draftKey(id), "Refund 42, please");
    page.takeBack(id);
    expect(page.readStored(page.draftKey(id))).toBe("Refund 42, please");
  });

  it("leaves the draft when the server took it after all, and nothing else was written", async () => {
    const page = await reload();
    const id = page.begin("shop", "Refund 42");
    page.takeBack(id);
    page.dropDraft(id, ["Something else"]);
    expect(page.readStored(page.draftKey(id))).toBe("Refund 42");
    page.dropDraft(id, ["Refund 42"]);
    expect(page.readStored(page.draftKey(id))).toBe("");
  });

  it("is forgotten once the server has the session", async () => {
    const page = await reload();
    const id = page.begin("shop", "Refund 42");
    page.forgetStart(id);
    expect(page.startOf(id)).toBeUndefined();
    expect([page.takeBack(id), (await reload()).startOf(id)]).toEqual([undefined, undefined]);
    expect(page.startOf("chat-other")).toBeUndefined();
    expect(kept.size).toBe(0);
  });
});
