import { WifiOff } from "lucide-react";

import { isReachable, useLostSince } from "../api/connection";
import { useNow } from "../lib/now";
import { duration } from "../lib/time";

/** Says since when the server is gone. */
export function ConnectionBar() {
  const since = useLostSince();
  const now = useNow(since === null ? null : 1000);
  if (since === null) return null;
  const gone = Math.max(0, now - since);
  return (
    <div role="alert" data-testid="connection-bar" className="flex shrink-0 flex-wrap items-center gap-x-2 gap-y-1 border-b border-waiting-line bg-waiting-soft px-4 py-1.5 text-sm text-waiting">
      <WifiOff size={15} className="shrink-0" aria-hidden />
      <span className="font-medium">The server is gone</span>
      <span className="tabular-nums">
        since {new Date(since).toTimeString().slice(0, 8)}
        {gone >= 2000 ? ` (${duration(Math.floor(gone / 1000) * 1000)})` : ""}. Reconnecting; nothing typed is lost.
      </span>
      <button type="button" className="rounded font-medium underline" onClick={() => void isReachable()}>
        Try now
      </button>
    </div>
  );
}
