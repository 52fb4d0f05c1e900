import { describe, expect, it } from "vitest";

import type { PendingCall } from "../src/api/types";
import { beside, byDeadline, globalKey, isExpired } from "../src/lib/pending";

const call = (toolCallId: string, createdAt: number, deadline?: number): PendingCall => ({
  toolCallId,
  toolName: "t",
  kind: "approval",
  input: {},
  digest: "d",
  runId: "r",
  sessionId: "s",
  rootSessionId: "s",
  createdAt,
  ...(deadline === undefined ? {} : { deadline }),
});

describe("the inbox", () => {
  it("has the nearest deadline first, and calls without one last, the oldest first", () => {
    const calls = [call("none-new", 9), call("late", 1, 300), call("none-old", 2), call("soon", 8, 100), call("soon-old", 3, 100)];
    expect(calls.sort(byDeadline).map((one) => one.toolCallId)).toEqual(["soon-old", "soon", "late", "none-old", "none-new"]);
  });

  it("knows what has expired", () => {
    expect(isExpired(call("a", 0, 10), 10)).toBe(true);
    expect(isExpired(call("a", 0, 10), 9)).toBe(false);
    expect(isExpired(call("a", 0), 1e15)).toBe(false);
  });

  it("tells calls of two sessions with the same id apart", () => {
    expect(globalKey(call("a", 0))).not.toBe(globalKey({ ...call("a", 0), rootSessionId: "other" }));
  });

  it("moves the selection, and stops at the ends", () => {
    const keys = ["a", "b", "c"];
    expect(beside(keys, null, 1)).toBe("a");
    expect(beside(keys, null, -1)).toBe("c");
    expect(beside(keys, "a", 1)).toBe("b");
    expect(beside(keys, "c", 1)).toBe("c");
    expect(beside(keys, "a", -1)).toBe("a");
    expect(beside(keys, "gone", 1)).toBe("a");
    expect(beside([], "a", 1)).toBeNull();
  });
});
