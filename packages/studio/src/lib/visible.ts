// Characters that are invisible or that reorder the text around them are shown by their number: a user who decides
// by a text must see all of it. The terminal escapes the same characters (crates/cli/src/visible.rs).

/** Characters that draw nothing. The last one is a blank pattern that Unicode counts as a symbol. */
const hidden = /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]$/u;
/** Characters that may be followed by a variation selector, which then chooses how they are drawn. */
const picture = /^[\u00a9\u00ae\u203c\u2049\u2122-\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u2bff\u{1f000}-\u{1faff}]$/u;

function isHidden(before: string, one: string, after: string): boolean {
  if (!hidden.test(one)) return false;
  if (one !== "\ufe0e" && one !== "\ufe0f") return true;
  return /^[0-9#*]$/.test(before) ? after !== "\u20e3" : !picture.test(before);
}

/** A piece of a text: as it is, or the escape of one hidden character. */
export type Segment = { text: string; hidden: boolean };

/** Splits a text at its hidden characters, each replaced by its escape, except those in `keep`. */
export function segments(text: string, keep = ""): Segment[] {
  const made: Segment[] = [];
  const all = [...text];
  let plain = "";
  all.forEach((one, at) => {
    if (keep.includes(one) || !isHidden(all[at - 1] ?? "", one, all[at + 1] ?? "")) {
      plain += one;
      return;
    }
    if (plain) made.push({ text: plain, hidden: false });
    plain = "";
    made.push({ text: `\\u{${one.codePointAt(0)?.toString(16)}}`, hidden: true });
  });
  if (plain) made.push({ text: plain, hidden: false });
  return made;
}

/** A piece of a text that is searched: a match has its number. */
export type Piece = Segment & { mark?: number };

/** Splits segments at what a pattern finds in them, up to so many matches. */
export function marked(all: Segment[], pattern: RegExp, most: number): Piece[] {
  const pieces: Piece[] = [];
  let count = 0;
  for (const one of all) {
    if (one.hidden) {
      pieces.push(one);
      continue;
    }
    let from = 0;
    for (const match of one.text.matchAll(pattern)) {
      if (count >= most) break;
      if (match.index > from) pieces.push({ text: one.text.slice(from, match.index), hidden: false });
      pieces.push({ text: match[0], hidden: false, mark: count });
      count += 1;
      from = match.index + match[0].length;
    }
    if (from < one.text.length) pieces.push({ text: one.text.slice(from), hidden: false });
  }
  return pieces;
}

/** A text as one line with its hidden characters escaped, for places that take only a string. */
export const escaped = (text: string, keep = ""): string => segments(text, keep).map((one) => one.text).join("");
