import { sentence } from "../api/client";
import type { Outcome } from "../api/decisions";
import type { PendingCall } from "../api/types";
import { globalKey } from "../lib/pending";

/** What came of several denials: the keys of the calls that wait no longer, and a sentence where not all were used. */
export type Denials = { settled: Set<string>; note: string | null };

export function denialsOf(calls: PendingCall[], answers: PromiseSettledResult<Outcome>[]): Denials {
  const settled = new Set(calls.filter((_, at) => answers[at]?.status === "fulfilled").map(globalKey));
  const unused = answers.filter((one) => one.status === "fulfilled" && !one.value.used).length;
  const failed = answers.filter((one) => one.status === "rejected");
  const said = [
    unused > 0 && `${unused} of ${answers.length} were already decided.`,
    failed.length > 0 && `${failed.length} of ${answers.length} could not be denied: ${sentence(failed[0]?.reason)}`,
  ].filter(Boolean);
  return { settled, note: said.join(" ") || null };
}
