import type { UIMessage } from "ai";

import type { Run } from "../api/types";

export type Ended = { word: string; reason?: string; tone: "done" | "failed" | "stopped"; steps: number; ms?: number };

const words: Record<string, [string, string | undefined]> = {
  max_steps: ["Stopped", "the limit of steps was reached"],
  budget: ["Stopped", "the budget was used up"],
};

/** How a turn ended, from its runs in their order; `null` while it goes on or waits. */
export function endOf(runs: Run[]): Ended | null {
  const last = runs.at(-1);
  const first = runs[0];
  if (!last || !first) return null;
  // A run that continues counts on.
  const steps = Math.max(...runs.map((run) => run.stepCount));
  const ms = last.endedAt === undefined ? undefined : last.endedAt - first.startedAt;
  switch (last.status) {
    case "completed": {
      const [word, reason] = words[last.completionReason ?? ""] ?? ["Done", undefined];
      return { word, reason, tone: word === "Done" ? "done" : "stopped", steps, ms };
    }
    case "failed":
      return { word: "Failed", reason: last.error?.message, tone: "failed", steps, ms };
    case "interrupted":
      return { word: "Stopped", reason: last.reason, tone: "stopped", steps, ms };
    default:
      return null;
  }
}

/** The runs of each turn, in the order of the turns. */
export function turnsOf(runs: Run[]): Run[][] {
  const turns = new Map<number, Run[]>();
  for (const run of runs) turns.set(run.turn, [...(turns.get(run.turn) ?? []), run]);
  return [...turns].sort(([one], [other]) => one - other).map(([, all]) => all);
}

/** How many messages of the user a turn takes, those that are hidden among them. */
const usersOf = (turn: Run[]): number => Math.max(1, turn.reduce((sum, run) => sum + (["execute", "with_message"].includes(run.trigger) ? run.messages : 0), 0));

/** How many of the first turns are not among messages of which the oldest were cut off: counted from the end. */
export function cutTurns(messages: UIMessage[], turns: Run[][]): number {
  let at = messages.length;
  let count = turns.length;
  while (at > 0 && count > 0) {
    count -= 1;
    while (at > 0 && messages[at - 1]?.role !== "user") at -= 1;
    for (let users = usersOf(turns[count] ?? []); users > 0 && messages[at - 1]?.role === "user"; users -= 1) at -= 1;
  }
  return count;
}

/** After which message each turn ends: a turn takes as many messages of the user as its runs began with. */
export function turnEnds(messages: UIMessage[], turns: Run[][]): Map<string, Run[]> {
  const ends = new Map<string, Run[]>();
  let at = 0;
  for (const turn of turns) {
    const isLast = turn === turns.at(-1);
    let users = usersOf(turn);
    let end: UIMessage | undefined;
    while (at < messages.length) {
      const message = messages[at];
      if (!message) break;
      if (message.role === "user") {
        if (users === 0 && !isLast) break;
        users -= 1;
      }
      end = message;
      at += 1;
      // Hidden messages are counted, but not shown: an answer ends the messages of its turn.
      if (message.role === "assistant" && messages[at]?.role === "user") break;
    }
    if (end) ends.set(end.id, turn);
  }
  return ends;
}
