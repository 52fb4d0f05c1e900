/** Whether a value has parts that can be folded. */
export function isFoldable(value: unknown): value is object {
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value !== "object" || value === null) return false;
  for (const name in value) if (Object.hasOwn(value, name)) return true;
  return false;
}

/** The parts of a value, one by one: a large one is not copied for its first few. */
function* partsOf(value: object): Generator<unknown> {
  if (Array.isArray(value)) yield* value;
  else for (const name in value) if (Object.hasOwn(value, name)) yield (value as Record<string, unknown>)[name];
}

/** How many values there are in a value, counted up to a limit. */
export function size(value: unknown, limit: number): number {
  if (!isFoldable(value)) return 1;
  let sum = 1;
  for (const part of partsOf(value)) {
    sum += size(part, limit - sum);
    if (sum >= limit) return limit;
  }
  return sum;
}

/** How many parts a value has. */
export const countOf = (value: object): number => (Array.isArray(value) ? value.length : Object.keys(value).length);

/** The first parts of a value, with their names. */
export function firstParts(value: object, count: number): [string, unknown][] {
  if (Array.isArray(value)) return value.slice(0, count).map((part, at) => [String(at), part]);
  return Object.entries(value).slice(0, count);
}

/** The parts of a value after its first ones that are wanted, with their names. */
export function laterParts(value: object, count: number, wanted: (name: string) => boolean): [string, unknown][] {
  return Object.keys(value).slice(count).filter(wanted).map((name) => [name, (value as Record<string, unknown>)[name]]);
}

/** How long all texts in a value are. */
export function textLength(value: unknown): number {
  if (typeof value === "string") return value.length;
  let sum = 0;
  if (isFoldable(value)) for (const part of partsOf(value)) sum += textLength(part);
  return sum;
}

/** What is inside of a folded value, in two words. */
export function inside(value: object): string {
  const count = countOf(value);
  if (Array.isArray(value)) return `${count} ${count === 1 ? "item" : "items"}`;
  return `${count} ${count === 1 ? "key" : "keys"}`;
}

/** Whether two values are the same in all their parts: of a message that grows each tick has a copy. */
export function equal(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other || Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  if (names.length !== Object.keys(other).length) return false;
  return names.every((name) => Object.hasOwn(other, name) && equal((one as Record<string, unknown>)[name], (other as Record<string, unknown>)[name]));
}

/** Whether a value at this depth is open at first: all of a small value, else only its outside. */
export const opensAt = (depth: number, isSmall: boolean): boolean => isSmall || depth < 1;

/** A value as text: a text as it is, anything else as JSON. */
export const textOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));
