/** Whether a value has parts that can be folded. */
export const isFoldable = (value: unknown): value is object => typeof value === "object" && value !== null && Object.keys(value).length > 0;

/** How many values there are in a value, counted up to a limit. */
export function size(value: unknown, limit: number): number {
  if (!isFoldable(value)) return 1;
  let sum = 1;
  for (const part of Object.values(value)) {
    sum += size(part, limit - sum);
    if (sum >= limit) return limit;
  }
  return sum;
}

/** What is inside of a folded value, in two words. */
export function inside(value: object): string {
  const count = Object.keys(value).length;
  if (Array.isArray(value)) return `${count} ${count === 1 ? "item" : "items"}`;
  return `${count} ${count === 1 ? "key" : "keys"}`;
}

/** Whether a value at this depth is open at first: all of a small value, else only its outside. */
export const opensAt = (depth: number, isSmall: boolean): boolean => isSmall || depth < 1;

/** A value as text: a text as it is, anything else as JSON. */
export const textOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));
