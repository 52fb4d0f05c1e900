import { useQuery } from "@tanstack/react-query";
import { ArrowDown } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";

import { decisionsIn } from "../api/decisions";
import { durationsQuery, runsQuery, useAgent } from "../api/queries";
import type { Snapshot } from "../api/types";
import { useConversation } from "../chat";
import { isComposing } from "../lib/typing";
import { Button } from "../ui/Button";
import { AssistantMessage } from "./AssistantMessage";
import { Composer } from "./Composer";
import { RunEnded } from "./RunEnded";
import { UserMessage } from "./UserMessage";
import { SurroundingsProvider, type Surroundings } from "./context";
import { type Ended, cutTurns, endOf, turnEnds, turnsOf } from "./ended";
import { draftKey } from "./first";
import { lacksDecisions } from "./parts";
import { useEnd } from "./scroll";

type Props = { id: string; agentType: string | undefined; snapshot: Snapshot | null; first: string | null };

export function Conversation({ id, agentType, snapshot, first }: Props) {
  const chat = useConversation(id, agentType, snapshot, first);
  const { messages, busy, paused, stopping, pending } = chat;
  const exists = chat.status !== undefined;
  const { data: runs } = useQuery({ ...runsQuery(id), enabled: exists });
  const { data: durations } = useQuery({ ...durationsQuery(id), enabled: exists });
  const tools = useAgent(chat.agentType)?.tools;
  const until = chat.status?.streamSequence;
  const { data: decided } = useQuery({
    queryKey: ["decided", id],
    queryFn: () => decisionsIn(id, until ?? 0),
    enabled: !busy && !chat.recalling && snapshot !== null && until !== undefined && tools !== undefined && lacksDecisions(messages, tools),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
  const turns = useMemo(() => turnsOf(runs ?? []), [runs]);
  // Counted anew with the runs, which are asked for when a turn is over: a message that was just sent has none yet.
  const gone = useMemo(() => (chat.cut ? cutTurns(messages, turns) : 0), [chat.cut, messages[0]?.id, turns]);
  const ends = useMemo(() => turnEnds(messages, turns.slice(gone)), [messages, turns, gone]);
  const { box, atEnd, toEnd } = useEnd();
  const last = messages.at(-1);

  // Esc stops, from anywhere but a dialog.
  const stop = useRef(chat.stop);
  stop.current = chat.stop;
  useEffect(() => {
    if (!busy || stopping) return;
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !isComposing(event) && !event.defaultPrevented && !document.querySelector("[role=dialog],[role=menu]")) stop.current();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [busy, stopping]);

  // A message of the user is always in sight.
  const users = messages.filter((one) => one.role === "user").length;
  useEffect(() => toEnd(), [users, toEnd]);

  const surroundings = useMemo<Surroundings>(
    () => ({ sessionId: id, agentType: chat.agentType, pending, durations: durations ?? new Map(), decided: decided ?? new Map(), busy, paused, readOnly: false, follow: chat.follow }),
    [id, chat.agentType, pending, durations, decided, busy, paused, chat.follow],
  );

  const endAfter = (message: string): Ended | null => {
    const isLast = message === last?.id;
    if (isLast && (busy || paused)) return null;
    const found = ends.get(message);
    const ended = found && endOf(found);
    if (isLast) {
      const told = toldEnd(chat.end);
      if (told) return { ...told, steps: ended?.steps ?? 0, ms: ended?.ms, reason: told.reason ?? ended?.reason };
      return ended ?? null;
    }
    return ended && ended.word !== "Done" ? ended : null;
  };
  const hint = paused ? "A new message gives up the open question" : busy ? "Esc stops" : "Enter sends, Shift Enter breaks the line";

  return (
    <SurroundingsProvider value={surroundings}>
      <div className="relative min-h-0 grow">
        <div ref={box} className="h-full overflow-x-hidden overflow-y-auto" tabIndex={0} role="region" aria-label="Conversation">
          <div className="mx-auto max-w-[760px] space-y-5 px-4 pt-6 pb-8 wide:px-5" aria-live="polite" aria-busy={busy} data-testid="messages">
            {chat.cut && (
              <p className="text-center text-sm text-quiet" data-testid="older-note">
                The conversation is long: its oldest messages are not shown here.
              </p>
            )}
            {messages.map((message) => {
              const ended = endAfter(message.id);
              const isLast = message.id === last?.id;
              return (
                <div key={message.id} className={`space-y-3 ${isLast ? "" : "[contain-intrinsic-size:auto_120px] [content-visibility:auto]"}`}>
                  {message.role === "user" ? <UserMessage message={message} /> : <AssistantMessage message={message} live={busy && isLast} />}
                  {ended && <RunEnded ended={ended} />}
                </div>
              );
            })}
            {chat.notes.map((note, at) => (
              <p key={at} className="text-sm break-words text-waiting">
                {note}
              </p>
            ))}
            {busy && (
              <p className="flex h-5 items-center gap-2 text-sm text-quiet" data-testid="working">
                <span className="size-2 animate-pulse-slow rounded-full bg-running" aria-hidden />
                {stopping ? "Stopping…" : chat.waiting ? "Sent" : "Working…"}
              </p>
            )}
            {paused && (
              <p className="flex h-5 items-center gap-2 text-sm text-waiting" data-testid="waiting-note">
                <span className="size-2 rotate-45 rounded-[2px] bg-waiting" aria-hidden />
                Waiting for an answer
              </p>
            )}
          </div>
        </div>
        {!atEnd && (
          <Button className="absolute! bottom-3 left-1/2 -translate-x-1/2 rounded-full! shadow-md" small onClick={() => toEnd(true)}>
            <ArrowDown size={13} aria-hidden />
            Latest
          </Button>
        )}
      </div>
      <div className="mx-auto w-full max-w-[760px] px-4 pb-4 wide:px-5">
        <Composer draftKey={draftKey(id)} busy={busy} stopping={stopping} hint={hint} error={chat.sendError} unsent={chat.unsent} onSend={chat.send} onStop={chat.stop} />
      </div>
    </SurroundingsProvider>
  );
}

/** How the stream told that the run ended, where it was not simply done. */
function toldEnd(end: { interrupted?: { reason?: string }; error?: { text: string } }): Pick<Ended, "word" | "reason" | "tone"> | null {
  if (end.error) return { word: "Failed", reason: end.error.text, tone: "failed" };
  return end.interrupted ? { word: "Stopped", reason: end.interrupted.reason, tone: "stopped" } : null;
}
