import type { PendingCall } from "../api/types";

/** What identifies a pending call in the tree of a root: the id of the approval, else that of the call. */
export const callKey = (call: { toolCallId: string; approvalId?: string }): string => call.approvalId ?? call.toolCallId;

/** What identifies a pending call among those of all sessions. */
export const globalKey = (call: { rootSessionId: string; toolCallId: string; approvalId?: string }): string => `${call.rootSessionId} ${callKey(call)}`;

/** The order of an inbox: the nearest deadline first, calls without one last, then the oldest first. */
export function byDeadline(one: PendingCall, other: PendingCall): number {
  const far = Number.POSITIVE_INFINITY;
  const deadlines = [one.deadline ?? far, other.deadline ?? far] as const;
  if (deadlines[0] !== deadlines[1]) return deadlines[0] - deadlines[1];
  return one.createdAt - other.createdAt || callKey(one).localeCompare(callKey(other));
}

export const isExpired = (call: PendingCall, now: number): boolean => call.deadline !== undefined && call.deadline <= now;

/** The call beside the selected one; the first or last when nothing is selected, and at an end the same. */
export function beside(keys: string[], selected: string | null, by: 1 | -1): string | null {
  if (!keys.length) return null;
  const at = selected === null ? -1 : keys.indexOf(selected);
  if (at < 0) return (by === 1 ? keys[0] : keys.at(-1)) ?? null;
  return keys[Math.min(keys.length - 1, Math.max(0, at + by))] ?? null;
}
