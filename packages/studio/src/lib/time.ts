const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const two = (number: number) => String(number).padStart(2, "0");

/** The date where the user is, as in its ISO form. */
function dateOf(when: Date): string {
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())}`;
}

/** How long ago something was, in one unit: `now`, `4m`, `3h`, `2d`, then the date. */
export function age(at: number, now: number): string {
  const past = now - at;
  if (past < MINUTE) return "now";
  if (past < HOUR) return `${Math.floor(past / MINUTE)}m`;
  if (past < DAY) return `${Math.floor(past / HOUR)}h`;
  if (past < 14 * DAY) return `${Math.floor(past / DAY)}d`;
  return dateOf(new Date(at));
}

/** How long something took: `12 ms`, `1.2 s`, `2m 03s`. */
export function duration(ms: number): string {
  if (ms < 1) return "<1 ms";
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND) return `${(ms / SECOND).toFixed(1)} s`;
  const seconds = Math.round(ms / SECOND);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${two(seconds % 60)}s`;
  return `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
}

/** The time until a deadline: `4:59`, `1:02:03`, `3d 4h`; `null` once it has passed. */
export function timeLeft(deadline: number, now: number): string | null {
  const seconds = Math.ceil((deadline - now) / SECOND);
  if (seconds <= 0) return null;
  const hours = Math.floor(seconds / 3600);
  if (hours >= 48) return `${Math.floor(hours / 24)}d ${hours % 24}h`;
  const minutes = Math.floor(seconds / 60) % 60;
  return hours ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
}

/** Which part of the time between two moments is left, from 1 to 0. */
export function partLeft(from: number, deadline: number, now: number): number {
  const whole = deadline - from;
  return whole <= 0 ? 0 : Math.min(1, Math.max(0, (deadline - now) / whole));
}

/** The time of the day, with the date when it is another day. */
export function clock(at: number, now: number): string {
  const when = new Date(at);
  const time = `${two(when.getHours())}:${two(when.getMinutes())}`;
  return when.toDateString() === new Date(now).toDateString() ? time : `${dateOf(when)} ${time}`;
}
