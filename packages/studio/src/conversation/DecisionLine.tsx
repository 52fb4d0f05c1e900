import type { Decision } from "../api/decisions";
import { useNow } from "../lib/now";
import { clock } from "../lib/time";
import { Visible } from "../ui/Visible";

const verbs = { approved: "Approved", denied: "Denied", answered: "Answered", failed: "Declined", expired: "Expired", gone: "No longer pending" };

/** Who decided what, and when. */
export function DecisionLine({ decision }: { decision: Decision }) {
  const now = useNow(null);
  const { kind, by, reason, at, late } = decision;
  return (
    <p className="text-sm text-quiet" data-testid="decision">
      {late ? `${late} ` : ""}
      <span className={`font-medium ${kind === "approved" || kind === "answered" ? "text-done" : kind === "gone" || kind === "expired" ? "text-text" : "text-failed"}`}>{verbs[kind]}</span>
      {by && (
        <>
          {" by "}
          <Visible text={by} />
        </>
      )}
      {reason && (
        <>
          {": "}
          <Visible text={reason} />
        </>
      )}
      {at !== undefined && <span className="tabular-nums"> · {clock(at, now)}</span>}
    </p>
  );
}
