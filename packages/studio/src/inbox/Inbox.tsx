import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { CheckCheck, CornerDownRight } from "lucide-react";
import { type FormEvent, useCallback, useEffect, useMemo, useRef, useState } from "react";

import { sentence } from "../api/client";
import { type Decision, decisionOf, submit } from "../api/decisions";
import { titleQuery, useTool } from "../api/queries";
import type { PendingCall } from "../api/types";
import { Decide, AskedBy } from "../conversation/ApprovalCard";
import { Arguments } from "../conversation/Arguments";
import { useAsker } from "../conversation/Asker";
import { DecisionLine } from "../conversation/DecisionLine";
import { Header } from "../frame/Header";
import { usePending } from "../frame/sessions";
import { useNow } from "../lib/now";
import { beside, byDeadline, globalKey, isExpired } from "../lib/pending";
import { summary } from "../lib/summary";
import { age } from "../lib/time";
import { isTyping } from "../lib/typing";
import { Button } from "../ui/Button";
import { Modal } from "../ui/Modal";
import { StateIcon } from "../ui/State";
import { Visible } from "../ui/Visible";
import { type Denials, denialsOf } from "./denials";

/** How many calls are drawn at first, and more each time. */
const PAGE = 100;

/** How long a call is in sight before a key approves it. */
const SEEN_MS = 400;

/** Everything that waits for a person, in all sessions. */
export function Inbox() {
  const pending = usePending();
  const [shown, setShown] = useState(PAGE);
  const calls = useMemo(() => [...pending].sort(byDeadline).slice(0, shown), [pending, shown]);
  const keys = useMemo(() => calls.map(globalKey), [calls]);
  const [selected, setSelected] = useState<string | null>(null);
  const [asking, setAsking] = useState<string | null>(null);
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [denying, setDenying] = useState(false);
  const [last, setLast] = useState<{ call: PendingCall; decision: Decision } | null>(null);
  const [error, setError] = useState<string | null>(null);
  const navigate = useNavigate();
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    document.title = "Inbox · Helix";
  }, []);

  // The row that keys have moved to has the focus, so that it is heard; in sight once it has opened.
  const moved = useRef(false);
  const reveal = (key: string | null) => {
    const row = list.current?.querySelector<HTMLElement>(`[data-key="${CSS.escape(key ?? "")}"]`);
    row?.querySelector<HTMLElement>("[data-row]")?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  };
  useEffect(() => {
    if (moved.current) reveal(selected);
    moved.current = false;
  }, [selected]);

  // What was answered elsewhere is gone from the list; the selection moves to what took its place, with a focus that it had.
  const before = useRef(keys);
  useEffect(() => {
    if (selected !== null && !keys.includes(selected)) {
      const at = before.current.indexOf(selected);
      moved.current = document.activeElement === document.body;
      setSelected(keys[Math.min(Math.max(at, 0), keys.length - 1)] ?? null);
    }
    before.current = keys;
  }, [keys, selected]);

  const call = calls.find((one) => globalKey(one) === selected);
  const markedCalls = calls.filter((one) => marked.has(globalKey(one)) && one.kind === "approval");

  const toggle = useCallback((key: string) => setMarked((all) => new Set(all.has(key) ? [...all].filter((one) => one !== key) : [...all, key])), []);
  const answered = (one: PendingCall) => {
    const decision = decisionOf(one);
    if (decision) setLast({ call: one, decision });
    setAsking(null);
  };

  // What has just come into sight is not approved by a key that was meant for what was there before.
  const since = useRef(0);
  useEffect(() => {
    since.current = Date.now();
  }, [selected]);

  const act = useRef<(event: KeyboardEvent) => void>(() => {});
  act.current = (event) => {
    if (isTyping(event)) return;
    const control = (event.target as HTMLElement | null)?.closest?.<HTMLElement>("button, a");
    // Enter on the button of another row opens that row, as a click does.
    const isOwn = control?.dataset.row !== undefined && control.dataset.row === selected;
    if (event.key === "j" || event.key === "ArrowDown" || event.key === "k" || event.key === "ArrowUp") {
      const next = beside(keys, selected, event.key === "j" || event.key === "ArrowDown" ? 1 : -1);
      setAsking(null);
      if (next === selected) reveal(next);
      else {
        moved.current = true;
        setSelected(next);
      }
    } else if (!call) return;
    else if (event.key === "a" && !event.repeat && Date.now() - since.current > SEEN_MS && call.kind === "approval" && !isExpired(call, Date.now())) {
      submit(call, { approved: true }).then(
        () => answered(call),
        (failure) => setError(sentence(failure)),
      );
    } else if (event.key === "d" && call.kind === "approval" && !isExpired(call, Date.now())) setAsking(selected);
    else if (event.key === "x" && call.kind === "approval") toggle(globalKey(call));
    else if (event.key === "Enter" && (!control || isOwn)) {
      // A key that is held since it approved the row before opens nothing.
      if (!event.repeat) void navigate({ to: "/s/$session", params: { session: call.rootSessionId } });
    } else return;
    setError(null);
    event.preventDefault();
  };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => act.current(event);
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);

  return (
    <>
      <Header title="Inbox">
        {markedCalls.length > 0 && (
          <Button look="danger" small data-testid="deny-many" onClick={() => setDenying(true)}>
            Deny {markedCalls.length}…
          </Button>
        )}
      </Header>
      <div className="min-h-0 grow overflow-x-hidden overflow-y-auto" data-testid="inbox">
        <div className="mx-auto max-w-[860px] px-3 py-4 rail:px-5">
          {last && (
            <div className="mb-3 flex min-w-0 flex-wrap items-center gap-x-2 rounded-lg border border-line px-3 py-2" role="status">
              <span className="max-w-full truncate text-sm font-medium">
                <Visible text={last.call.toolName} />
              </span>
              <DecisionLine decision={last.decision} />
            </div>
          )}
          {error && (
            <p role="alert" className="mb-3 text-sm break-words text-failed">
              {error}
            </p>
          )}
          {calls.length === 0 ? (
            <div className="grid justify-items-center gap-3 py-24 text-center" data-testid="inbox-empty">
              <CheckCheck size={28} className="text-done" aria-hidden />
              <h2 className="text-lg font-semibold">Nothing waits for you</h2>
              <p className="max-w-sm text-sm text-quiet">Approvals and questions of all sessions appear here, the nearest deadline first.</p>
            </div>
          ) : (
            <ul ref={list} className="overflow-hidden rounded-lg border border-line" aria-label="Waiting for you">
              {calls.map((one) => {
                const key = globalKey(one);
                return (
                  <Row
                    key={key}
                    call={one}
                    selected={key === selected}
                    marked={marked.has(key)}
                    asking={asking === key}
                    onSelect={() => setSelected(key === selected ? null : key)}
                    onMark={() => toggle(key)}
                    onAsking={(is) => setAsking(is ? key : null)}
                    onAnswered={() => answered(one)}
                  />
                );
              })}
            </ul>
          )}
          {pending.length > calls.length && (
            <Button look="quiet" className="mt-3" data-testid="inbox-more" onClick={() => setShown(shown + PAGE)}>
              Show {Math.min(PAGE, pending.length - calls.length)} more of {pending.length}
            </Button>
          )}
        </div>
      </div>
      <DenyMany
        open={denying}
        calls={markedCalls}
        onCancel={() => setDenying(false)}
        onDone={({ settled, note }) => {
          setDenying(false);
          setMarked((all) => new Set([...all].filter((key) => !settled.has(key))));
          setError(note);
        }}
      />
    </>
  );
}

type RowProps = {
  call: PendingCall;
  selected: boolean;
  marked: boolean;
  asking: boolean;
  onSelect(): void;
  onMark(): void;
  onAsking(asking: boolean): void;
  onAnswered(): void;
};

function Row({ call, selected, marked, asking, onSelect, onMark, onAsking, onAnswered }: RowProps) {
  const asker = useAsker(call);
  const tool = useTool(asker, call.toolName);
  const { data: title } = useQuery(titleQuery(call.rootSessionId));
  const now = useNow(10_000);
  const isApproval = call.kind === "approval";
  return (
    <li className={`border-t border-line first:border-t-0 ${selected ? "bg-waiting-soft" : "hover:bg-sunken"}`} data-testid="inbox-item" data-key={globalKey(call)} data-selected={selected || undefined}>
      <div className="flex min-w-0 items-start gap-2.5 px-3 py-2.5">
        {isApproval ? (
          <input type="checkbox" checked={marked} onChange={onMark} aria-label={`Select ${call.toolName}, to deny several`} className="mt-0.5 size-4 shrink-0 accent-accent-fill" data-testid="inbox-select" />
        ) : (
          <span className="size-4 shrink-0" />
        )}
        <div className="min-w-0 grow">
          <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1">
            <button type="button" aria-expanded={selected} data-row={globalKey(call)} className="flex min-w-0 grow basis-48 items-center gap-2 rounded text-left" onClick={onSelect}>
              <StateIcon state="waiting" size={14} />
              <span className="max-w-[60%] shrink-0 truncate font-medium">
                <Visible text={tool?.title ?? call.toolName} />
              </span>
              <span className="min-w-0 truncate text-sm text-quiet">{summary(call.input)}</span>
            </button>
            <AskedBy call={call} asker={asker} />
          </div>
          <Link to="/s/$session" params={{ session: call.rootSessionId }} className="mt-0.5 inline-flex max-w-full min-w-0 items-center gap-1 rounded text-xs text-quiet hover:text-text hover:underline">
            <CornerDownRight size={12} className="shrink-0" aria-hidden />
            <span className="min-w-0 truncate">{title ?? call.rootSessionId}</span>
            <span className="shrink-0">· {age(call.createdAt, now)}</span>
          </Link>
          {selected && (
            <div className="space-y-2 pt-2">
              {tool?.description && <p className="text-sm break-words whitespace-pre-line text-quiet">{tool.description}</p>}
              <div className="rounded-md border border-line bg-surface px-2.5 py-0.5">
                <Arguments input={call.input} />
              </div>
              {isApproval ? (
                <Decide call={call} onAnswered={onAnswered} asking={asking} onAsking={onAsking} />
              ) : (
                <Link to="/s/$session" params={{ session: call.rootSessionId }} className="inline-flex h-8 items-center rounded-md border border-line-strong/60 bg-surface px-3 font-medium hover:bg-raised">
                  Answer in the session
                </Link>
              )}
            </div>
          )}
        </div>
      </div>
    </li>
  );
}

/** Denies several calls for one reason. There is no such thing for approvals: each is looked at. */
function DenyMany({ open, calls, onCancel, onDone }: { open: boolean; calls: PendingCall[]; onCancel(): void; onDone(denials: Denials): void }) {
  const [reason, setReason] = useState("");
  const [busy, setBusy] = useState(false);
  const deny = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    const text = reason.trim();
    const answers = await Promise.allSettled(calls.map((call) => submit(call, { approved: false, ...(text ? { reason: text } : {}) })));
    setBusy(false);
    setReason("");
    onDone(denialsOf(calls, answers));
  };
  const cancel = () => {
    setReason("");
    onCancel();
  };
  return (
    <Modal open={open} onOpenChange={(is) => !is && cancel()} title={`Deny ${calls.length}?`} data-testid="deny-many-dialog">
      <form onSubmit={(event) => void deny(event)} className="space-y-3 px-5 pt-1 pb-5">
        <ul className="max-h-40 overflow-y-auto text-sm text-quiet">
          {calls.map((call) => (
            <li key={globalKey(call)} className="truncate">
              <span className="font-medium text-text">
                <Visible text={call.toolName} />
              </span>{" "}
              {summary(call.input)}
            </li>
          ))}
        </ul>
        <label className="block text-xs text-quiet">
          Why not? The agents read it.
          <input className="mt-1 block h-8 w-full rounded-md border border-line-strong bg-surface px-2.5 text-base text-text" value={reason} maxLength={2000} autoFocus placeholder="Reason (optional)" data-testid="deny-many-reason" onChange={(event) => setReason(event.target.value)} />
        </label>
        <div className="flex gap-2">
          <Button type="submit" look="danger" disabled={busy} data-testid="deny-many-confirm">
            Deny {calls.length}
          </Button>
          <Button look="quiet" onClick={cancel}>
            Cancel
          </Button>
        </div>
      </form>
    </Modal>
  );
}
