import { afterEach, describe, expect, it, vi } from "vitest";

import { decide, decisionFrom, decisionOf, submit } from "../src/api/decisions";
import type { PendingCall } from "../src/api/types";

const call = (toolCallId: string): PendingCall => ({ toolCallId, toolName: "t", kind: "approval", input: {}, approvalId: `of ${toolCallId}`, digest: "d", runId: "r", sessionId: "s", rootSessionId: "s", createdAt: 0 });

describe("decisions", () => {
  it("come from answers", () => {
    expect(decisionFrom({ approvalId: "a", approved: true, decidedBy: "bob", at: 5 })).toEqual({ kind: "approved", reason: undefined, by: "bob", at: 5 });
    expect(decisionFrom({ approvalId: "a", approved: false, reason: "no", at: 5 })).toEqual({ kind: "denied", reason: "no", by: undefined, at: 5 });
    expect(decisionFrom({ decidedBy: "bob", at: 5, deadline: 9 })).toEqual({ kind: "answered", reason: undefined, by: "bob", at: 5 });
  });

  it("are nobody's when the deadline has passed", () => {
    expect(decisionFrom({ approvalId: "a", decidedBy: "x", at: 5 })).toEqual({ kind: "expired", at: 5 });
    expect(decisionFrom({ decidedBy: "x", at: 9, deadline: 9 })).toEqual({ kind: "expired", at: 9 });
  });
});

describe("answers", () => {
  afterEach(() => vi.unstubAllGlobals());

  /** A server that takes the first answer, and says of the others that they came too late. */
  function server() {
    let count = 0;
    const fetch = vi.fn(async () => Response.json({ status: count++ ? "already_completed" : "accepted", continuation: "new_run" }));
    vi.stubGlobal("fetch", fetch);
    return fetch;
  }

  it("are sent once, however often they are given meanwhile", async () => {
    const fetch = server();
    const one = call("twice");
    const outcomes = await Promise.all([submit(one, { approved: true }), submit(one, { approved: false })]);
    expect(fetch).toHaveBeenCalledTimes(1);
    expect(outcomes).toEqual([
      { used: true, goesOn: true },
      { used: false, goesOn: true },
    ]);
    expect(decisionOf(one)).toMatchObject({ kind: "approved", by: "you" });
  });

  it("leave the decision of this page as it is when a later one is not used", async () => {
    server();
    const one = call("later");
    await submit(one, { approved: true });
    expect(await submit(one, { approved: false })).toEqual({ used: false, goesOn: true });
    expect(decisionOf(one)).toMatchObject({ kind: "approved", by: "you" });
    expect(decisionOf(one)?.late).toBeUndefined();
  });

  it("say that they came too late beside the decision of another, and where none is known", async () => {
    server();
    await submit(call("first"), { approved: true });
    const one = call("other");
    decide(one, { kind: "denied", by: "bob" });
    await submit(one, { approved: true });
    expect(decisionOf(one)).toEqual({ kind: "denied", by: "bob", late: expect.stringContaining("too late") });
    await submit(call("unknown"), { approved: true });
    expect(decisionOf(call("unknown"))).toMatchObject({ kind: "gone", late: expect.stringContaining("too late") });
  });

  it("can be given again when they were not sent", async () => {
    vi.stubGlobal("fetch", async () => Response.json({ error: "no" }, { status: 400 }));
    const one = call("again");
    await expect(submit(one, { approved: true })).rejects.toThrow("no");
    server();
    expect(await submit(one, { approved: true })).toMatchObject({ used: true });
  });
});
