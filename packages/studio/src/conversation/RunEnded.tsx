import { duration } from "../lib/time";
import { StateIcon } from "../ui/State";
import { Visible } from "../ui/Visible";
import type { Ended } from "./ended";

/** How a run ended: a word, and a reason where there is one. */
export function RunEnded({ ended }: { ended: Ended }) {
  const { word, reason, tone, steps, ms } = ended;
  const facts = [steps > 0 && `${steps} ${steps === 1 ? "step" : "steps"}`, ms !== undefined && duration(ms)].filter(Boolean);
  return (
    <p className="flex min-w-0 items-start gap-2 text-sm text-quiet" role="status" data-testid="run-ended" data-tone={tone}>
      <span className="mt-0.5 inline-flex">
        <StateIcon state={tone} size={14} label={false} />
      </span>
      <span className="min-w-0 break-words">
        <span className={tone === "failed" ? "font-medium text-failed" : tone === "stopped" ? "font-medium text-text" : ""}>{word}</span>
        {reason && (
          <>
            {": "}
            <Visible text={reason} keep={"\n"} />
          </>
        )}
        {facts.length > 0 && <span className="text-xs tabular-nums"> · {facts.join(" · ")}</span>}
      </span>
    </p>
  );
}
