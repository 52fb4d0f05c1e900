import { ChevronDown, ChevronUp, Search } from "lucide-react";
import type { KeyboardEvent } from "react";

import type { Found } from "../lib/json-search";
import { isComposing } from "../lib/typing";
import { Button } from "./Button";

type Props = { label: string; text: string; found: Found | undefined; at: number; onText(text: string): void; onMove(by: 1 | -1): void };

/** Searches a large value: which match one is at, and the way to the others. */
export function JsonSearch({ label, text, found, at, onText, onMove }: Props) {
  const onKeyDown = (event: KeyboardEvent) => {
    if (isComposing(event.nativeEvent)) return;
    if (event.key === "Enter") onMove(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape" && text) onText("");
    else return;
    // It is neither sent with a form, nor does it stop the run.
    event.preventDefault();
    event.stopPropagation();
  };
  const total = found?.total ?? 0;
  return (
    <div className="sticky top-0 z-10 flex h-7 min-w-0 items-center gap-1 bg-surface pr-7 font-sans" data-testid="json-search">
      <Search size={12} className="shrink-0 text-quiet" aria-hidden />
      <input
        type="search"
        className="h-6 w-40 min-w-0 rounded bg-transparent px-1 text-xs"
        placeholder="Search"
        aria-label={`Search ${label}`}
        autoComplete="off"
        spellCheck={false}
        value={text}
        data-testid="json-search-text"
        onChange={(event) => onText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <span className="shrink-0 text-xs text-quiet tabular-nums" role="status" data-testid="json-search-count">
        {found && (total ? `${at + 1} of ${total}${found.isMore ? "+" : ""}` : "Not found")}
      </span>
      {total > 1 && (
        <>
          <Button look="quiet" square small className="size-6!" aria-label="Previous match" onClick={() => onMove(-1)}>
            <ChevronUp size={13} aria-hidden />
          </Button>
          <Button look="quiet" square small className="size-6!" aria-label="Next match" onClick={() => onMove(1)}>
            <ChevronDown size={13} aria-hidden />
          </Button>
        </>
      )}
    </div>
  );
}
