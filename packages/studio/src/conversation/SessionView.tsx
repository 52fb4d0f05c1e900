import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowLeft, Bot, SearchX } from "lucide-react";
import { useEffect, useState } from "react";

import { ApiError, sentence } from "../api/client";
import { durationsQuery, runsQuery, sessionQuery, snapshotQuery, statusQuery, titleQuery } from "../api/queries";
import type { Snapshot } from "../api/types";
import { Header } from "../frame/Header";
import { titleOf } from "../lib/summary";
import { Visible } from "../ui/Visible";
import { AssistantMessage } from "./AssistantMessage";
import { Conversation } from "./Conversation";
import { RunEnded } from "./RunEnded";
import { UserMessage } from "./UserMessage";
import { SurroundingsProvider } from "./context";
import { endOf } from "./ended";
import { type Start, begunHere, forgetStart, startOf, takeBack } from "./first";

export function SessionView({ id }: { id: string }) {
  const begun = begunHere(id);
  // A session that was begun here is not on the server yet: it is never asked for.
  const [isNew] = useState(() => begun !== undefined && !takenUp.has(id));
  useEffect(() => {
    takenUp.add(id);
  }, [id]);
  const first = isNew && begun ? begun : null;
  /** How the session begins whose first message the server never took. */
  const [unsent, setUnsent] = useState<Start | null>(null);
  const snapshot = useQuery({ ...snapshotQuery(id), enabled: !first && !unsent, refetchInterval: (query) => (query.state.data ? false : 3000) });
  const [start, setStart] = useState<Snapshot | null>(null);
  useEffect(() => {
    if (!snapshot.data || start) return;
    setStart(snapshot.data);
    forgetStart(id);
  }, [id, snapshot.data, start]);
  const failure = snapshot.error ?? snapshot.failureReason;
  const isUnsent = !first && !start && failure !== null && startOf(id) !== undefined;
  useEffect(() => {
    if (isUnsent) setUnsent(takeBack(id) ?? null);
  }, [id, isUnsent]);
  const agentType = first?.agentType ?? start?.agentType ?? unsent?.agentType;
  const title = useTitle(id, first?.text);

  useEffect(() => {
    document.title = `${title ?? "Session"} · Helix`;
  }, [title]);

  if (!first && !start && !unsent) {
    const missing = !isUnsent && snapshot.error instanceof ApiError && snapshot.error.status === 404;
    if (missing) return <NotFound id={id} />;
    return (
      <>
        <Header title={title ?? "…"} />
        <div className="mx-auto w-full max-w-[760px] grow space-y-4 px-5 pt-8" aria-busy="true" role="status" aria-label="Loading the session">
          {snapshot.error ? (
            <p className="text-sm text-failed">{sentence(snapshot.error)}</p>
          ) : (
            [70, 45, 85].map((width, at) => <div key={width} className={`h-4 animate-pulse-slow rounded bg-raised ${["w-2/3", "w-2/5", "w-5/6"][at]}`} />)
          )}
        </div>
      </>
    );
  }
  return <Loaded id={id} title={title} agentType={agentType} snapshot={start} first={first?.text ?? null} isNew={first !== null || unsent !== null} />;
}

/** Sessions whose first message was sent. */
const takenUp = new Set<string>();

function useTitle(id: string, first: string | undefined): string | undefined {
  const client = useQueryClient();
  const known = first === undefined ? undefined : titleOf(first);
  const { data } = useQuery({ ...titleQuery(id), enabled: known === undefined });
  useEffect(() => {
    if (known !== undefined) client.setQueryData(titleQuery(id).queryKey, known);
  }, [client, id, known]);
  return known ?? data ?? undefined;
}

type LoadedProps = { id: string; title: string | undefined; agentType: string | undefined; snapshot: Snapshot | null; first: string | null; isNew: boolean };

function Loaded({ id, title, agentType, snapshot, first, isNew }: LoadedProps) {
  const { data: session } = useQuery({ ...sessionQuery(id), enabled: !isNew });
  const parent = session?.parentSessionId;
  const isWaiting = !isNew && session === undefined;
  return (
    <>
      <Header title={title ?? "Session"} agentType={agentType}>
        {parent && (
          <Link to="/s/$session" params={{ session: session?.rootSessionId ?? parent }} className="inline-flex h-7 shrink-0 items-center gap-1 rounded-md px-2 text-sm text-agent hover:bg-raised" data-testid="to-parent">
            <ArrowLeft size={14} aria-hidden />
            <span className="max-rail:sr-only">Main session</span>
          </Link>
        )}
      </Header>
      {isWaiting ? <div className="grow" aria-busy="true" /> : parent ? <Child id={id} first={snapshot} /> : <Conversation id={id} agentType={agentType} snapshot={snapshot} first={first} />}
    </>
  );
}

const CHILD_MS = 1500;

/** The session of a sub-agent, to read. */
function Child({ id, first }: { id: string; first: Snapshot | null }) {
  const { data: status } = useQuery({ ...statusQuery(id), refetchInterval: CHILD_MS });
  const runs = useQuery({ ...runsQuery(id), refetchInterval: status?.runStatus === "running" ? CHILD_MS : false }).data;
  const { data: durations } = useQuery(durationsQuery(id));
  const isRunning = status?.runStatus === "running";
  const { data } = useQuery({ ...snapshotQuery(id), refetchInterval: isRunning ? CHILD_MS : false });
  const snapshot = data ?? first;
  const turn = runs?.at(-1)?.turn;
  const ended = !isRunning && runs ? endOf(runs.filter((run) => run.turn === turn)) : null;
  return (
    <SurroundingsProvider value={{ sessionId: id, agentType: snapshot?.agentType, pending: new Map(), durations: durations ?? new Map(), decided: new Map(), busy: isRunning, paused: status?.runStatus?.startsWith("suspended") ?? false, readOnly: true, follow: () => {} }}>
      <div className="min-h-0 grow overflow-x-hidden overflow-y-auto" tabIndex={0} role="region" aria-label="Conversation of the sub-agent">
        <div className="mx-auto max-w-[760px] px-4 pt-6 pb-8 wide:px-5">
          <div className="space-y-5 border-l-2 border-agent-line pl-4" data-testid="messages">
            {snapshot?.messages.map((message) => (message.role === "user" ? <UserMessage key={message.id} message={message} /> : <AssistantMessage key={message.id} message={message} live={isRunning} />))}
            {ended && <RunEnded ended={ended} />}
            {isRunning && <p className="text-sm text-quiet">Working…</p>}
          </div>
        </div>
      </div>
      <p className="mx-auto flex w-full max-w-[760px] items-center gap-2 px-4 pb-4 text-sm text-quiet wide:px-5" data-testid="read-only">
        <Bot size={14} className="shrink-0 text-agent" aria-hidden />
        A sub-agent: its parent talks to it. What it asks is answered in the main session.
      </p>
    </SurroundingsProvider>
  );
}

function NotFound({ id }: { id: string }) {
  return (
    <>
      <Header title="Not found" />
      <div className="grid grow place-content-center justify-items-center gap-3 px-6 text-center" data-testid="not-found">
        <SearchX size={28} className="text-quiet" aria-hidden />
        <h2 className="text-lg font-semibold">There is no such session</h2>
        <p className="max-w-sm text-sm break-words text-quiet">
          Nothing is stored under <Visible text={id} className="font-mono" />. It may have been deleted, or belong to another store or user.
        </p>
        <Link to="/" className="inline-flex h-8 items-center rounded-md bg-accent-fill px-3 font-medium text-on-accent hover:bg-accent-press">
          New chat
        </Link>
      </div>
    </>
  );
}
