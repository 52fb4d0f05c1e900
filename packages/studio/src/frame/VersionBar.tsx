import { RefreshCw } from "lucide-react";
import { useState } from "react";

import { useIsReplaced } from "../api/version";
import { keepOver } from "../lib/stored";

/** Says that the server has another version of this page, and offers it. */
export function VersionBar() {
  const isReplaced = useIsReplaced();
  const [later, setLater] = useState(false);
  if (!isReplaced || later) return null;
  const reload = () => {
    keepOver();
    location.reload();
  };
  return (
    <div role="status" data-testid="version-bar" className="flex shrink-0 flex-wrap items-center gap-x-2 gap-y-1 border-b border-line bg-raised px-4 py-1.5 text-sm">
      <RefreshCw size={15} className="shrink-0 text-accent" aria-hidden />
      <span className="font-medium">The server has another version of this page</span>
      <span className="text-quiet">Nothing typed is lost.</span>
      <button type="button" className="rounded font-medium text-accent underline" onClick={reload} data-testid="version-reload">
        Reload
      </button>
      <button type="button" className="rounded text-quiet underline" onClick={() => setLater(true)}>
        Later
      </button>
    </div>
  );
}
