import { describe, expect, it } from "vitest";

import type { Outcome } from "../src/api/decisions";
import type { PendingCall } from "../src/api/types";
import { denialsOf } from "../src/inbox/denials";

const call = (toolCallId: string) => ({ toolCallId, rootSessionId: "s" }) as PendingCall;
const answer = (used: boolean): PromiseSettledResult<Outcome> => ({ status: "fulfilled", value: { used, goesOn: true } });
const failure: PromiseSettledResult<Outcome> = { status: "rejected", reason: new Error("No answer.") };

describe("several denials", () => {
  it("say nothing when all were used", () => {
    expect(denialsOf([call("a"), call("b")], [answer(true), answer(true)])).toEqual({ settled: new Set(["s a", "s b"]), note: null });
  });

  it("tell how many were decided before", () => {
    expect(denialsOf([call("a"), call("b"), call("c")], [answer(false), answer(true), answer(false)]).note).toBe("2 of 3 were already decided.");
  });

  it("leave out of the settled ones what failed", () => {
    const { settled, note } = denialsOf([call("a"), call("b"), call("c")], [answer(false), failure, failure]);
    expect(settled).toEqual(new Set(["s a"]));
    expect(note).toBe("1 of 3 were already decided. 2 of 3 could not be denied: No answer.");
  });
});
