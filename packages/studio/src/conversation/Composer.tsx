import { ArrowUp, Square } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useEffect, useLayoutEffect, useRef } from "react";

import { useStored } from "../lib/stored";
import { isComposing } from "../lib/typing";
import { Button } from "../ui/Button";

type Props = {
  /** Under which the draft is kept. */
  draftKey: string;
  busy?: boolean;
  stopping?: boolean;
  hint?: string;
  disabled?: boolean;
  error?: string | null;
  /** A message that could not be sent, which comes back. */
  unsent?: { text: string; at: number } | null;
  before?: ReactNode;
  onSend(text: string): void;
  onStop?(): void;
};

const TALLEST = 240;

export function Composer({ draftKey, busy = false, stopping = false, hint, disabled = false, error, unsent, before, onSend, onStop }: Props) {
  const [text, setText] = useStored(draftKey);
  const field = useRef<HTMLTextAreaElement>(null);
  const canSend = text.trim() !== "" && !disabled;

  useLayoutEffect(() => {
    const area = field.current;
    if (!area) return;
    area.style.height = "auto";
    area.style.height = `${Math.min(TALLEST, area.scrollHeight)}px`;
  }, [text]);

  useEffect(() => {
    if (matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, [draftKey]);

  const came = useRef<number | null>(null);
  useEffect(() => {
    if (!unsent || came.current === unsent.at) return;
    came.current = unsent.at;
    setText(text.trim() ? `${unsent.text}\n${text}` : unsent.text);
  }, [unsent, text, setText]);

  const send = () => {
    if (!canSend) return;
    setText("");
    onSend(text.trim());
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !isComposing(event.nativeEvent)) {
      event.preventDefault();
      send();
    }
  };
  return (
    <form
      className="min-w-0"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {error && (
        <p role="alert" className="mb-2 text-sm break-words text-failed" data-testid="send-error">
          {error}
        </p>
      )}
      <div className="rounded-xl border border-line-strong/70 bg-surface shadow-sm focus-within:border-accent focus-within:ring-1 focus-within:ring-accent">
        <textarea
          ref={field}
          data-testid="composer"
          aria-label="Message"
          placeholder="Write a message"
          rows={1}
          dir="auto"
          className="block max-h-60 min-h-11 w-full resize-none bg-transparent px-3.5 pt-3 pb-1 text-base outline-none"
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
        />
        <div className="flex min-w-0 items-center gap-2 px-2 pb-2">
          {before}
          <span className="min-w-0 grow px-1.5 text-xs text-quiet">{hint}</span>
          {busy ? (
            <Button look="outline" small data-testid="stop" disabled={stopping} aria-label={stopping ? "Stopping…" : "Stop"} onClick={onStop}>
              <Square size={11} fill="currentColor" aria-hidden />
              {stopping ? "Stopping…" : "Stop"}
            </Button>
          ) : (
            <Button type="submit" look="filled" square small data-testid="send" aria-label="Send" disabled={!canSend}>
              <ArrowUp size={16} aria-hidden />
            </Button>
          )}
        </div>
      </div>
    </form>
  );
}
