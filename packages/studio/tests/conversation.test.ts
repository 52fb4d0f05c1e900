import type { UIMessage } from "ai";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import type { Run } from "../src/api/types";
import { cutTurns, endOf, turnEnds, turnsOf } from "../src/conversation/ended";
import { decisions, stateOf } from "../src/conversation/parts";
import { steady } from "../src/conversation/steady";
import { stopRun } from "../src/conversation/stopping";

const user = (id: string): UIMessage => ({ id, role: "user", parts: [{ type: "text", text: id }] });
const agent = (id: string, text = id): UIMessage => ({ id, role: "assistant", parts: [{ type: "step-start" }, { type: "text", text }] });
const run = (turn: number, more: Partial<Run> = {}): Run => ({ runId: `r${turn}`, trigger: "execute", turn, messages: 1, stepCount: 1, status: "completed", startedAt: 100, endedAt: 350, completionReason: "text", ...more });

describe("how a run ended", () => {
  it("is a word and a reason", () => {
    expect(endOf([run(1)])).toEqual({ word: "Done", reason: undefined, tone: "done", steps: 1, ms: 250 });
    expect(endOf([run(1, { completionReason: "max_steps" })])).toMatchObject({ word: "Stopped", reason: "the limit of steps was reached" });
    expect(endOf([run(1, { status: "failed", error: { code: "X", message: "no key" } })])).toMatchObject({ word: "Failed", reason: "no key", tone: "failed" });
    expect(endOf([run(1, { status: "interrupted" })])).toMatchObject({ word: "Stopped", tone: "stopped" });
    expect(endOf([run(1, { status: "running" })])).toBeNull();
    expect(endOf([run(1, { status: "suspended_client_tool" })])).toBeNull();
  });

  it("counts over all runs of a turn", () => {
    const runs = [run(1, { status: "suspended_client_tool", endedAt: 200 }), run(1, { trigger: "continue", messages: 0, stepCount: 3, startedAt: 900, endedAt: 1100 })];
    expect(turnsOf(runs)).toHaveLength(1);
    expect(endOf(runs)).toMatchObject({ steps: 3, ms: 1000 });
  });

  it("stands after the last message of its turn", () => {
    const messages = [user("u1"), agent("a1"), user("u2"), user("u3"), agent("a3")];
    const ends = turnEnds(messages, turnsOf([run(1), run(2), run(3)]));
    expect([...ends].map(([id, runs]) => [id, runs[0]?.turn])).toEqual([
      ["a1", 1],
      ["u2", 2],
      ["a3", 3],
    ]);
    // A hidden message counts in the run, and is not among those shown.
    const hidden = turnEnds([user("u1"), agent("a1"), user("u2"), agent("a2")], turnsOf([run(1, { messages: 2 }), run(2)]));
    expect([...hidden.keys()]).toEqual(["a1", "a2"]);
  });
});

describe("a long conversation without its oldest messages", () => {
  const turns = turnsOf([run(1), run(2, { status: "failed" }), run(3), run(4)]);
  const endsOf = (messages: UIMessage[]) => [...turnEnds(messages, turns.slice(cutTurns(messages, turns)))].map(([id, runs]) => [id, runs[0]?.turn]);

  it("has the ends of its turns counted from the last", () => {
    expect(endsOf([user("u3"), agent("a3"), user("u4"), agent("a4")])).toEqual([
      ["a3", 3],
      ["a4", 4],
    ]);
    // The second turn has no answer, and the first message of the page is the answer to a question before it.
    expect(endsOf([agent("a1"), user("u2"), user("u3"), agent("a3"), user("u4")])).toEqual([
      ["a1", 1],
      ["u2", 2],
      ["a3", 3],
      ["u4", 4],
    ]);
  });

  it("may have all turns, or be without any", () => {
    expect(cutTurns([user("u"), agent("a")], turns.slice(0, 1))).toBe(0);
    expect(cutTurns([user("u"), agent("a")], [])).toBe(0);
    expect(cutTurns([], turns)).toBe(4);
  });
});

describe("a replay", () => {
  it("is shown once it has caught up", () => {
    const before = agent("a1", "one two three");
    expect(steady([user("u"), agent("a1", "one")], before)).toEqual([user("u"), before]);
    expect(steady([user("u")], before)).toEqual([user("u"), before]);
    const more = [user("u"), agent("a1", "one two three four")];
    expect(steady(more, before)).toBe(more);
    const next = [user("u"), agent("a2", "x")];
    expect(steady(next, before)).toBe(next);
    expect(steady([user("u")], user("u"))).toEqual([user("u")]);
  });
});

describe("a stop", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const stop = async (answers: boolean[], justSent: boolean) => {
    const interrupt = vi.fn(async () => answers.shift() ?? false);
    const stopped = stopRun(interrupt, justSent);
    await vi.runAllTimersAsync();
    return [await stopped, interrupt.mock.calls.length];
  };

  it("is asked for once more while the message is on its way", async () => {
    expect(await stop([true], true)).toEqual([true, 1]);
    expect(await stop([false, true], true)).toEqual([true, 2]);
    expect(await stop([false, false, true], true)).toEqual([false, 2]);
    expect(await stop([false, true], false)).toEqual([false, 1]);
  });
});

describe("parts", () => {
  it("have a state that is true when the run has ended", () => {
    const part = { toolCallId: "c", toolName: "t", state: "input-available" } as Parameters<typeof stateOf>[0];
    expect(stateOf(part, true, false)).toBe("running");
    expect(stateOf(part, false, false)).toBe("stopped");
    expect(stateOf(part, false, true)).toBe("waiting");
    expect(stateOf({ ...part, state: "output-error" } as typeof part, false, false)).toBe("failed");
    expect(stateOf({ ...part, state: "output-denied" } as typeof part, false, false)).toBe("denied");
  });

  it("tell who decided", () => {
    const message: UIMessage = { id: "a", role: "assistant", parts: [{ type: "data-approval", id: "x", data: { toolCallId: "c", approved: false, reason: "no", decidedBy: "bob" } }] };
    expect(decisions(message).get("c")).toEqual({ kind: "denied", reason: "no", by: "bob" });
  });
});
