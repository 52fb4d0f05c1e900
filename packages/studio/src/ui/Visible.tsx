import { type ReactNode, useEffect, useRef } from "react";

import { type Piece, marked, segments } from "../lib/visible";

/** What is searched for in a text: the first matches are marked, one of them as the current one. */
export type Search = { pattern: RegExp; most: number; current: number };

/** A text with its hidden characters escaped, except those in `keep`, isolated from the text around it. */
export function Visible({ text, keep = "", className, search }: { text: string; keep?: string; className?: string; search?: Search }) {
  const all = segments(text, keep);
  const pieces: Piece[] = search ? marked(all, search.pattern, search.most) : all;
  return (
    <bdi className={className}>
      {pieces.map((one, at) => {
        if (one.mark !== undefined) {
          return one.mark === search?.current ? (
            <Current key={at}>{one.text}</Current>
          ) : (
            <mark key={at} className="rounded-sm bg-waiting/30 text-text">
              {one.text}
            </mark>
          );
        }
        return one.hidden ? (
          <span key={at} data-hidden-character className="rounded-sm bg-mark px-0.5 font-mono text-[0.92em] text-on-mark">
            {one.text}
          </span>
        ) : (
          one.text
        );
      })}
    </bdi>
  );
}

/** The match that one has come to. */
function Current({ children }: { children: ReactNode }) {
  const mark = useRef<HTMLElement>(null);
  useEffect(() => mark.current?.scrollIntoView({ block: "nearest" }), []);
  return (
    <mark ref={mark} data-testid="json-match" className="scroll-my-12 rounded-sm bg-accent-fill text-on-accent">
      {children}
    </mark>
  );
}
