import { Ban, CheckCircle2, CircleAlert, CircleDashed, CirclePause, CircleSlash, LoaderCircle } from "lucide-react";

export type StateName = "running" | "waiting" | "done" | "failed" | "stopped" | "denied" | "queued";

const icons = {
  running: [LoaderCircle, "text-running animate-spin", "Running"],
  waiting: [CirclePause, "text-waiting", "Waiting"],
  done: [CheckCircle2, "text-done", "Done"],
  failed: [CircleAlert, "text-failed", "Failed"],
  stopped: [CircleSlash, "text-stopped", "Stopped"],
  denied: [Ban, "text-failed", "Denied"],
  queued: [CircleDashed, "text-quiet", "Being written"],
} as const;

/** A state by its shape and its colour. */
export function StateIcon({ state, size = 15, label = true }: { state: StateName; size?: number; label?: boolean }) {
  const [Icon, colour, name] = icons[state];
  return <Icon size={size} className={`shrink-0 ${colour}`} {...(label ? { "aria-label": name, role: "img" } : { "aria-hidden": true })} />;
}

const dots: Record<string, [string, string]> = {
  running: ["bg-running animate-pulse-slow rounded-full", "running"],
  waiting: ["bg-waiting rounded-[2px] rotate-45", "waits for an answer"],
  done: ["bg-done rounded-full", "done"],
  failed: ["bg-failed rounded-[2px]", "failed"],
  stopped: ["border-2 border-stopped rounded-full", "stopped"],
};

/** The state of a session as a small mark, with its own shape for each. */
export function Dot({ state }: { state: "running" | "waiting" | "done" | "failed" | "stopped" }) {
  const [look, name] = dots[state] ?? ["", ""];
  return <span className={`inline-block size-2 shrink-0 ${look}`} role="img" aria-label={name} data-state={state} />;
}
