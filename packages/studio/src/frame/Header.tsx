import { Menu } from "lucide-react";
import type { ReactNode } from "react";

import { Button } from "../ui/Button";
import { Visible } from "../ui/Visible";
import { show } from "./ui-state";

/** The head of a view: its title, and on narrow screens the button that opens the rail. */
export function Header({ title, agentType, children }: { title: string; agentType?: string; children?: ReactNode }) {
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line px-3 rail:px-5">
      <Button look="quiet" square className="rail:hidden" aria-label="Open the navigation" data-testid="open-rail" onClick={() => show("rail")}>
        <Menu size={17} aria-hidden />
      </Button>
      <h1 className="min-w-0 truncate font-semibold" data-testid="title">
        <Visible text={title} />
      </h1>
      {agentType && (
        <span className="shrink-0 rounded-md border border-line px-1.5 text-xs text-quiet" data-testid="session-agent">
          <Visible text={agentType} />
        </span>
      )}
      <span className="grow" />
      {children}
    </header>
  );
}
