import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { Inbox as InboxIcon, Keyboard, Plus, Search } from "lucide-react";
import { useEffect, useRef } from "react";

import { agentsQuery, titleQuery } from "../api/queries";
import type { Session } from "../api/types";
import { useNow } from "../lib/now";
import { age } from "../lib/time";
import { Button } from "../ui/Button";
import { Key, MOD } from "../ui/Keys";
import { Logo } from "../ui/Logo";
import { Dot } from "../ui/State";
import { Tip } from "../ui/Tip";
import { Visible } from "../ui/Visible";
import { ThemeToggle } from "./ThemeToggle";
import { type DotState, dotOf, rootsOf, usePending, useSessions } from "./sessions";
import { show } from "./ui-state";

const ROW = 34;
const link = "flex h-8 min-w-0 items-center gap-2 rounded-md px-2 text-base hover:bg-hover";
const current = "bg-hover font-medium";

function SessionRow({ session, state, now }: { session: Session; state: DotState; now: number }) {
  const { data: title } = useQuery(titleQuery(session.sessionId));
  return (
    <Link to="/s/$session" params={{ session: session.sessionId }} className={link} activeProps={{ className: current }} data-testid="session-item" data-session={session.sessionId} title={title ?? session.sessionId}>
      <span className="inline-flex w-4 shrink-0 justify-center">
        <Dot state={state} />
      </span>
      <span className="min-w-0 grow truncate">{title ?? <span className="text-quiet">{session.agentType}</span>}</span>
      <span className="shrink-0 text-xs text-quiet tabular-nums">{age(session.updatedAt, now)}</span>
    </Link>
  );
}

function Sessions() {
  const { sessions, hasNextPage, fetchNextPage, isFetchingNextPage, isLoading } = useSessions();
  const waiting = rootsOf(usePending());
  const now = useNow(20_000);
  const box = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: sessions.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 6,
    getItemKey: (at) => sessions[at]?.sessionId ?? at,
  });
  const rows = virtual.getVirtualItems();
  const lastRow = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetchingNextPage && lastRow >= sessions.length - 5) void fetchNextPage();
  }, [hasNextPage, isFetchingNextPage, lastRow, sessions.length, fetchNextPage]);
  return (
    <div ref={box} className="min-h-0 grow overflow-x-hidden overflow-y-auto px-2 pb-2" tabIndex={-1}>
      {!isLoading && sessions.length === 0 && <p className="px-2 py-1 text-sm text-quiet">None yet. The first message begins one.</p>}
      <ul className="relative" style={{ height: virtual.getTotalSize() }} aria-label="Sessions">
        {rows.map((row) => {
          const session = sessions[row.index];
          return (
            session && (
              <li key={row.key} className="absolute inset-x-0 top-0" style={{ transform: `translateY(${row.start}px)`, height: ROW }}>
                <SessionRow session={session} state={dotOf(session, waiting)} now={now} />
              </li>
            )
          );
        })}
      </ul>
    </div>
  );
}

const heading = "px-4 pt-4 pb-1 text-xs font-medium text-quiet";

/** The rail on the left: agents, inbox and sessions. */
export function Rail() {
  const { data } = useQuery(agentsQuery);
  const pending = usePending();
  return (
    <nav className="flex h-full min-h-0 w-full flex-col bg-sunken" aria-label="Helix">
      <div className="flex h-12 shrink-0 items-center gap-2 px-4">
        <Logo />
        <span className="font-semibold">Helix</span>
        <span className="grow" />
        <Tip text={<>Find sessions, agents and commands ({MOD} K)</>}>
          <Button look="quiet" square small aria-label="Find sessions, agents and commands" data-testid="open-palette" onClick={() => show("palette")}>
            <Search size={15} aria-hidden />
          </Button>
        </Tip>
      </div>
      <div className="shrink-0 px-2">
        <Link to="/" className={link} activeOptions={{ exact: true, includeSearch: false }} activeProps={{ className: current }} data-testid="new-chat">
          <Plus size={16} className="shrink-0 text-quiet" aria-hidden />
          New chat
        </Link>
        <Link to="/inbox" className={link} activeProps={{ className: current }} data-testid="open-inbox">
          <InboxIcon size={16} className="shrink-0 text-quiet" aria-hidden />
          <span className="grow">Inbox</span>
          {pending.length > 0 && (
            <span className="rounded-full bg-waiting px-1.5 text-xs font-medium text-surface tabular-nums" aria-label={`${pending.length} waiting`} data-testid="inbox-count">
              {pending.length > 99 ? "99+" : pending.length}
            </span>
          )}
        </Link>
      </div>
      {data && data.agents.length > 0 && (
        <>
          <h2 className={heading}>Agents</h2>
          <ul className="max-h-[30%] shrink-0 overflow-x-hidden overflow-y-auto px-2">
            {data.agents.map((one) => (
              <li key={one.agentType}>
                <Link to="/" search={{ agent: one.agentType }} className={`${link} h-7!`} title={one.description} data-testid="agent-item">
                  <span className="min-w-0 truncate pl-6 text-quiet">
                    <Visible text={one.agentType} />
                  </span>
                </Link>
              </li>
            ))}
          </ul>
        </>
      )}
      <h2 className={heading}>Sessions</h2>
      <Sessions />
      <div className="flex shrink-0 items-center gap-1 border-t border-line px-2 py-1.5">
        <ThemeToggle />
        <Tip text="Keys (?)" side="top">
          <Button look="quiet" square aria-label="Show the keys" data-testid="open-keys" onClick={() => show("keys")}>
            <Keyboard size={16} aria-hidden />
          </Button>
        </Tip>
        <span className="grow" />
        <span className="hidden items-center gap-1 pr-1 wide:inline-flex">
          <Key>{MOD}</Key>
          <Key>K</Key>
        </span>
      </div>
    </nav>
  );
}
