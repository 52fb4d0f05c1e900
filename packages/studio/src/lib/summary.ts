import { escaped } from "./visible";

const LONGEST = 200;

const short = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value) ?? ""));

/** The arguments of a call in one line, like `order: 42 · cents: 1999`. Hidden characters are escaped. */
export function summary(input: unknown): string {
  if (input === undefined || input === null) return "";
  const isRecord = typeof input === "object" && !Array.isArray(input);
  const line = isRecord
    ? Object.entries(input).map(([name, value]) => `${name}: ${short(value)}`).join(" · ")
    : short(input);
  return escaped(line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line);
}

/** The first line of a text, for a title. */
export function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0] ?? "";
  return escaped(line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line);
}
