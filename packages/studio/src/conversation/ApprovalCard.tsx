import { type FormEvent, useId, useState } from "react";

import { sentence } from "../api/client";
import { type Answer, submit } from "../api/decisions";
import { useTool } from "../api/queries";
import type { PendingCall } from "../api/types";
import { useNow } from "../lib/now";
import { callKey, globalKey, isExpired } from "../lib/pending";
import { useKept } from "../lib/stored";
import { isComposing } from "../lib/typing";
import { Button } from "../ui/Button";
import { Ring } from "../ui/Ring";
import { StateIcon } from "../ui/State";
import { Visible } from "../ui/Visible";
import { Arguments } from "./Arguments";
import { useAsker } from "./Asker";

/** Sends an answer to a call, and tells what went wrong. */
export function useAnswering(call: PendingCall, onAnswered: (goesOn: boolean) => void) {
  const [sending, setSending] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const answer = async (given: Answer) => {
    setSending(true);
    setError(null);
    try {
      onAnswered((await submit(call, given)).goesOn);
    } catch (failure) {
      setError(sentence(failure));
    } finally {
      setSending(false);
    }
  };
  return { sending, error, answer };
}

type Deciding = { call: PendingCall; onAnswered(goesOn: boolean): void; asking?: boolean; onAsking?(asking: boolean): void };

/** Approve, and beside it deny, which asks for a reason once it is pressed. */
export function Decide({ call, onAnswered, asking: given, onAsking }: Deciding) {
  const [own, setOwn] = useState(false);
  const asking = given ?? own;
  const setAsking = onAsking ?? setOwn;
  const [reason, setReason] = useKept(`deny ${globalKey(call)}`, "");
  const { sending, error, answer } = useAnswering(call, onAnswered);
  const now = useNow(call.deadline === undefined ? null : 500);
  const field = useId();
  if (isExpired(call, now)) return <p className="text-sm text-failed" data-testid="expired-note">The time to answer has passed. This can no longer be decided.</p>;
  const deny = (event: FormEvent) => {
    event.preventDefault();
    void answer({ approved: false, ...(reason.trim() ? { reason: reason.trim() } : {}) });
  };
  return (
    <div className="min-w-0">
      {asking ? (
        <form onSubmit={deny} className="flex flex-wrap items-end gap-2">
          <label className="min-w-0 flex-1 basis-60 text-xs text-quiet" htmlFor={field}>
            Why not? The agent reads it.
            <input
              id={field}
              data-testid="deny-reason"
              className="mt-1 block h-8 w-full rounded-md border border-line-strong bg-surface px-2.5 text-base text-text"
              value={reason}
              maxLength={2000}
              autoFocus
              autoComplete="off"
              placeholder="Reason (optional)"
              onChange={(event) => setReason(event.target.value)}
              onKeyDown={(event) => {
                if (event.key !== "Escape" || isComposing(event.nativeEvent)) return;
                event.stopPropagation();
                setAsking(false);
              }}
            />
          </label>
          <div className="flex gap-2">
            <Button type="submit" look="danger" disabled={sending} data-testid="deny-confirm">
              Deny
            </Button>
            <Button look="quiet" onClick={() => setAsking(false)}>
              Cancel
            </Button>
          </div>
        </form>
      ) : (
        <div className="flex gap-2">
          <Button look="filled" disabled={sending} data-testid="approve" onClick={() => void answer({ approved: true })}>
            Approve
          </Button>
          <Button disabled={sending} data-testid="deny" onClick={() => setAsking(true)}>
            Deny
          </Button>
        </div>
      )}
      {error && (
        <p role="alert" className="mt-2 text-sm break-words text-failed">
          {error}
        </p>
      )}
    </div>
  );
}

/** Who asks, and how long there is left. */
export function AskedBy({ call, asker }: { call: PendingCall; asker: string | undefined }) {
  return (
    <div className="flex items-center gap-3 text-xs text-quiet">
      {asker && (
        <span>
          <Visible text={asker} /> asks
        </span>
      )}
      {call.deadline !== undefined && <Ring from={call.createdAt} deadline={call.deadline} />}
    </div>
  );
}

/** A question whether a tool may run. Its title and words come from the configuration, never from the model. */
export function ApprovalCard({ call, known, onAnswered }: { call: PendingCall; known?: { sessionId: string; agentType: string | undefined }; onAnswered(goesOn: boolean): void }) {
  const asker = useAsker(call, known);
  const tool = useTool(asker, call.toolName);
  return (
    <section className="rounded-lg border border-waiting-line bg-waiting-soft" aria-label={`Approval of ${call.toolName}`} data-testid="approval-card" data-call={callKey(call)}>
      <header className="flex flex-wrap items-center gap-x-2 gap-y-1 px-3 pt-2.5">
        <StateIcon state="waiting" />
        <h2 className="min-w-0 font-semibold break-words">
          Run <Visible text={tool?.title ?? call.toolName} />?
        </h2>
        <span className="grow" />
        <AskedBy call={call} asker={asker} />
      </header>
      <div className="space-y-2 px-3 pt-1 pb-3">
        {tool?.description && <p className="text-sm break-words whitespace-pre-line text-quiet">{tool.description}</p>}
        <div className="rounded-md border border-line bg-surface px-2.5 py-0.5">
          <Arguments input={call.input} />
        </div>
        <div className="pt-1">
          <Decide call={call} onAnswered={onAnswered} />
        </div>
      </div>
    </section>
  );
}
