// Finds a text in a value, in the order in which the value is shown.

import { isFoldable } from "./json";

const MOST = 200;

/** Which of all matches are in one text: the first of them, and how many. */
export type Place = { from: number; count: number };

export type Found = {
  total: number;
  /** Whether there may be more than were looked for. */
  isMore: boolean;
  /** The matches in the names, and in the values, by the path of each. */
  names: Map<string, Place>;
  values: Map<string, Place>;
  /** What is, or has in it, a match. */
  touched: Set<string>;
  /** What is to be unfolded to see all of them. */
  holders: Set<string>;
};

/** The path of a part of a value, as a JSON pointer. */
export const pathOf = (path: string, name: string): string => `${path}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;

/** Finds a text as it is written, whatever its case. */
export const patternOf = (text: string): RegExp => new RegExp(text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu");

/** A value without parts, as the viewer writes it. */
export const writtenOf = (value: unknown): string => (typeof value === "string" ? JSON.stringify(value).slice(1, -1) : String(JSON.stringify(value)));

/** Searches a value, or a text. The names of the parts of a list are not shown, and not searched. */
export function search(value: unknown, pattern: RegExp, most = MOST): Found {
  const found: Found = { total: 0, isMore: false, names: new Map(), values: new Map(), touched: new Set(), holders: new Set() };

  const look = (text: string, path: string, places: Map<string, Place>): boolean => {
    const from = found.total;
    for (const _ of text.matchAll(pattern)) {
      if (found.total >= most) {
        found.isMore = true;
        break;
      }
      found.total += 1;
    }
    const count = found.total - from;
    if (!count) return false;
    places.set(path, { from, count });
    found.touched.add(path);
    return true;
  };

  const walk = (part: unknown, path: string): boolean => {
    if (!isFoldable(part)) return look(path === "" && typeof part === "string" ? part : writtenOf(part), path, found.values);
    let holds = false;
    for (const name of Object.keys(part)) {
      if (found.isMore) break;
      const at = pathOf(path, name);
      const isNamed = !Array.isArray(part) && look(JSON.stringify(name), at, found.names);
      if (walk((part as Record<string, unknown>)[name], at) || isNamed) holds = true;
    }
    if (holds) {
      found.touched.add(path);
      found.holders.add(path);
    }
    return holds;
  };

  walk(value, "");
  return found;
}
