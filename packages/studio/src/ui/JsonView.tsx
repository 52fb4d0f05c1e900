import { createContext, useContext, useDeferredValue, useEffect, useMemo, useState } from "react";

import { countOf, firstParts, inside, isFoldable, laterParts, opensAt, size, textLength, textOf } from "../lib/json";
import { type Found, pathOf, patternOf, search, writtenOf } from "../lib/json-search";
import { Copy } from "./Copy";
import { Chevron } from "./Disclosure";
import { JsonSearch } from "./JsonSearch";
import { Visible } from "./Visible";

const SMALL = 40;
const LONG = 400;
const PAGE = 50;
/** From which length on texts are searched. */
const SEARCHED = 1000;

/** What is searched for in a value, and at which match one is. */
type Looking = { found: Found; pattern: RegExp; at: number };

const Context = createContext<Looking | null>(null);

/** The matches in the name, or the value, at a path. */
function useMatches(path: string, of: "names" | "values") {
  const looking = useContext(Context);
  const place = looking?.found[of].get(path);
  return looking && place ? { pattern: looking.pattern, most: place.count, current: looking.at - place.from } : undefined;
}

/** A value as JSON: folds, wraps, is searched when it is large, and shows characters that would hide. A text is shown as text. */
export function JsonView({ value: given, label }: { value: unknown; label: string }) {
  const value = typeof given === "string" ? given.replaceAll("\r\n", "\n") : given;
  const isSmall = size(value, SMALL) < SMALL;
  const isSearched = useMemo(() => !isSmall || textLength(value) > SEARCHED, [isSmall, value]);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(text);
  const looking = useMemo(() => {
    if (!wanted) return null;
    const pattern = patternOf(wanted);
    return { found: search(value, pattern), pattern };
  }, [value, wanted]);
  const total = looking?.found.total ?? 0;
  const current = total ? ((at % total) + total) % total : 0;
  const shown = useMemo(() => looking && { ...looking, at: current }, [looking, current]);
  return (
    <div className="group/json relative min-w-0 font-mono text-code">
      {isSearched && (
        <JsonSearch
          label={label}
          text={text}
          found={looking?.found}
          at={current}
          onText={(next) => {
            setText(next);
            setAt(0);
          }}
          onMove={(by) => setAt(current + by)}
        />
      )}
      <Context value={shown}>
        <div className="pr-7 break-words">
          {typeof value === "string" ? <LongText path="" text={value} keep={"\n\t"} className="whitespace-pre-wrap" /> : <Node path="" value={value} depth={0} isSmall={isSmall} last />}
        </div>
      </Context>
      <Copy text={() => textOf(given)} label={`Copy ${label}`} className="absolute! -top-1 right-0 z-10" />
    </div>
  );
}

function LongText({ path, text, keep, quote = "", className = "" }: { path: string; text: string; keep?: string; quote?: string; className?: string }) {
  const [all, setAll] = useState(false);
  const matches = useMatches(path, "values");
  const isLong = text.length > LONG && !all && !matches;
  return (
    <>
      <span className={className}>
        {quote}
        <Visible text={isLong ? text.slice(0, LONG) : text} keep={keep} search={matches} />
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

function Scalar({ path, value }: { path: string; value: unknown }) {
  const matches = useMatches(path, "values");
  if (typeof value === "string") return <LongText path={path} text={writtenOf(value)} quote={'"'} className="text-string" />;
  if (isEmpty(value)) return <span>{Array.isArray(value) ? "[]" : "{}"}</span>;
  return <Visible text={writtenOf(value)} className="text-number" search={matches} />;
}

const isEmpty = (value: unknown) => typeof value === "object" && value !== null;

type NodeProps = { path: string; name?: string; value: unknown; depth: number; isSmall: boolean; last: boolean };

function Node({ path, name, value, depth, isSmall, last }: NodeProps) {
  const looking = useContext(Context);
  const holds = looking?.found.holders.has(path) ?? false;
  const [open, setOpen] = useState(() => opensAt(depth, isSmall) || holds);
  // A search unfolds what it finds, and what is folded then stays so until one goes on.
  useEffect(() => {
    if (holds) setOpen(true);
  }, [holds, looking]);
  const [shown, setShown] = useState(PAGE);
  const matches = useMatches(path, "names");
  const key = name !== undefined && (
    <span className="text-key">
      <Visible text={JSON.stringify(name)} search={matches} />
      <span className="text-quiet">: </span>
    </span>
  );
  const comma = last ? null : <span className="text-quiet">,</span>;
  if (!isFoldable(value)) {
    return (
      <div className={depth ? "pl-4" : ""}>
        {key}
        <Scalar path={path} value={value} />
        {comma}
      </div>
    );
  }
  const [begin, end] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const count = countOf(value);
  // What is found further on is shown, too.
  const later = looking && holds && count > shown ? laterParts(value, shown, (one) => looking.found.touched.has(pathOf(path, one))) : [];
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
            <Node key={one} path={pathOf(path, one)} name={Array.isArray(value) ? undefined : one} value={part} depth={depth + 1} isSmall={isSmall} last={at === count - 1} />
          ))}
          {later.map(([one, part]) => (
            <div key={one}>
              <div className="pl-4 text-quiet">…</div>
              <Node path={pathOf(path, one)} name={Array.isArray(value) ? undefined : one} value={part} depth={depth + 1} isSmall={isSmall} last={false} />
            </div>
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
