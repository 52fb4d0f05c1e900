import { useNow } from "../lib/now";
import { partLeft, timeLeft } from "../lib/time";

const RADIUS = 6;
const AROUND = 2 * Math.PI * RADIUS;
const HURRY_MS = 30_000;

/** How long there is left to answer: a ring that empties, and the time. */
export function Ring({ from, deadline }: { from: number; deadline: number }) {
  const now = useNow(500);
  const left = timeLeft(deadline, now);
  if (left === null) return <span className="text-xs font-medium text-failed" data-testid="expired">Expired</span>;
  const hurry = deadline - now < HURRY_MS;
  return (
    <span className={`inline-flex items-center gap-1.5 text-xs tabular-nums ${hurry ? "text-failed" : "text-quiet"}`} role="timer" aria-label={`${left} left to answer`} data-testid="time-left">
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden className="-rotate-90">
        <circle cx="8" cy="8" r={RADIUS} fill="none" stroke="var(--line)" strokeWidth="2.5" />
        <circle cx="8" cy="8" r={RADIUS} fill="none" stroke="currentColor" strokeWidth="2.5" strokeDasharray={AROUND} strokeDashoffset={AROUND * (1 - partLeft(from, deadline, now))} />
      </svg>
      {left}
    </span>
  );
}
