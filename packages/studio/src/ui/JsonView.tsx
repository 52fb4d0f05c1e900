import { useState } from "react";

import { countOf, firstParts, inside, isFoldable, opensAt, size, textOf } from "../lib/json";
import { Copy } from "./Copy";
import { Chevron } from "./Disclosure";
import { Visible } from "./Visible";

const SMALL = 40;
const LONG = 400;
const PAGE = 50;

/** A value as JSON: folds, wraps, and shows characters that would hide. A text is shown as text. */
export function JsonView({ value, label }: { value: unknown; label: string }) {
  const isText = typeof value === "string";
  const isSmall = size(value, SMALL) < SMALL;
  return (
    <div className="group/json relative min-w-0 font-mono text-code">
      <div className="pr-7 break-words">
        {isText ? <LongText text={value.replaceAll("\r\n", "\n")} keep={"\n\t"} className="whitespace-pre-wrap" /> : <Node value={value} depth={0} isSmall={isSmall} last />}
      </div>
      <Copy text={() => textOf(value)} label={`Copy ${label}`} className="absolute! -top-1 right-0" />
    </div>
  );
}

function LongText({ text, keep, quote = "", className = "" }: { text: string; keep?: string; quote?: string; className?: string }) {
  const [all, setAll] = useState(false);
  const isLong = text.length > LONG && !all;
  return (
    <>
      <span className={className}>
        {quote}
        <Visible text={isLong ? text.slice(0, LONG) : text} keep={keep} />
        {!isLong && quote}
      </span>
      {isLong && (
        <button type="button" className="ml-1 rounded font-sans text-xs text-accent underline" onClick={() => setAll(true)}>
          show all {text.length.toLocaleString("en")} characters
        </button>
      )}
    </>
  );
}

function Scalar({ value }: { value: unknown }) {
  if (typeof value === "string") {
    const written = JSON.stringify(value);
    return <LongText text={written.slice(1, -1)} quote={'"'} className="text-string" />;
  }
  if (isEmpty(value)) return <span>{Array.isArray(value) ? "[]" : "{}"}</span>;
  return <span className="text-number">{String(JSON.stringify(value))}</span>;
}

const isEmpty = (value: unknown) => typeof value === "object" && value !== null;

type NodeProps = { name?: string; value: unknown; depth: number; isSmall: boolean; last: boolean };

function Node({ name, value, depth, isSmall, last }: NodeProps) {
  const [open, setOpen] = useState(() => opensAt(depth, isSmall));
  const [shown, setShown] = useState(PAGE);
  const key = name !== undefined && (
    <span className="text-key">
      <Visible text={JSON.stringify(name)} />
      <span className="text-quiet">: </span>
    </span>
  );
  const comma = last ? null : <span className="text-quiet">,</span>;
  if (!isFoldable(value)) {
    return (
      <div className={depth ? "pl-4" : ""}>
        {key}
        <Scalar value={value} />
        {comma}
      </div>
    );
  }
  const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const count = countOf(value);
  return (
    <div className="pl-4">
      <button
        type="button"
        aria-expanded={open}
        aria-label={`${open ? "Fold" : "Unfold"} ${name ?? "value"}, ${inside(value)}`}
        className="-ml-4 inline-flex items-center rounded text-left align-top"
        onClick={() => setOpen(!open)}
      >
        <span className="inline-flex w-4">
          <Chevron open={open} />
        </span>
        <span>
          {key}
          <span className="text-quiet">{open ? begin : `${begin} ${inside(value)} ${end}`}</span>
        </span>
      </button>
      {!open && comma}
      {open && (
        <>
          {firstParts(value, shown).map(([one, part], at) => (
            <Node key={one} name={Array.isArray(value) ? undefined : one} value={part} depth={depth + 1} isSmall={isSmall} last={at === count - 1} />
          ))}
          {count > shown && (
            <button type="button" className="ml-4 rounded font-sans text-xs text-accent underline" onClick={() => setShown(shown + 200)}>
              show {Math.min(200, count - shown)} more of {count}
            </button>
          )}
          <div className="text-quiet">
            {end}
            {comma}
          </div>
        </>
      )}
    </div>
  );
}
