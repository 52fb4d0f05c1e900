import { segments } from "../lib/visible";

/** A text with its hidden characters escaped, except those in `keep`, isolated from the text around it. */
export function Visible({ text, keep = "", className }: { text: string; keep?: string; className?: string }) {
  return (
    <bdi className={className}>
      {segments(text, keep).map((one, at) =>
        one.hidden ? (
          <span key={at} data-hidden-character className="rounded-sm bg-mark px-0.5 font-mono text-[0.92em] text-on-mark">
            {one.text}
          </span>
        ) : (
          one.text
        ),
      )}
    </bdi>
  );
}
