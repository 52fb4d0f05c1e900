import type { UIMessage } from "ai";
import { Brain, Zap } from "lucide-react";
import { memo, useMemo } from "react";

import { equal } from "../lib/json";
import { useKept } from "../lib/stored";
import { summary } from "../lib/summary";
import { Chevron } from "../ui/Disclosure";
import { JsonView } from "../ui/JsonView";
import { Markdown } from "../ui/Markdown";
import { Visible } from "../ui/Visible";
import { SubAgent } from "./SubAgent";
import { ToolCard } from "./ToolCard";
import { customEvent, decisions, subAgents, toolPart } from "./parts";

function Thinking({ id, text, live }: { id: string; text: string; live: boolean }) {
  const [open, setOpen] = useKept(`thinking ${id}`, false);
  return (
    <div data-testid="thinking">
      <button type="button" aria-expanded={open} className="-ml-1.5 flex h-7 items-center gap-2 rounded-md px-1.5 text-sm text-quiet hover:bg-raised hover:text-text" onClick={() => setOpen(!open)}>
        <Brain size={14} aria-hidden className={live ? "animate-pulse-slow" : ""} />
        {live ? "Thinking…" : "Thought"}
        <Chevron open={open} />
      </button>
      {open && <p className="speech mt-1 border-s-2 border-line ps-3 text-sm whitespace-pre-wrap text-quiet" dir="auto">{text}</p>}
    </div>
  );
}

const EventLine = memo(function EventLine({ id, name, data }: { id: string; name: string; data: unknown }) {
  const [open, setOpen] = useKept(`event ${id}`, false);
  const line = useMemo(() => summary(data), [data]);
  return (
    <div className="rounded-lg border border-line" data-testid="event">
      <button type="button" aria-expanded={open} className="flex h-8 w-full min-w-0 items-center gap-2 rounded-lg px-2.5 text-left text-sm hover:bg-raised" onClick={() => setOpen(!open)}>
        <Zap size={13} className="shrink-0 text-quiet" aria-hidden />
        <span className="shrink-0 font-medium">
          <Visible text={name} />
        </span>
        <span className="min-w-0 grow truncate text-quiet">{line}</span>
        <Chevron open={open} />
      </button>
      {open && (
        <div className="border-t border-line px-3 py-2">
          <JsonView value={data} label={name} />
        </div>
      )}
    </div>
  );
}, equal);

/** What the agent said and did in a turn. `live` says whether it goes on. */
export const AssistantMessage = memo(function AssistantMessage({ message, live }: { message: UIMessage; live: boolean }) {
  const subs = subAgents(message);
  const decided = decisions(message);
  const calls = new Set(message.parts.map((part) => toolPart(part)?.toolCallId));
  return (
    <article className="min-w-0 space-y-3" aria-label="Agent" data-testid="message-assistant" data-message={message.id}>
      {message.parts.map((part, at) => {
        const key = `${message.id} ${at}`;
        const tool = toolPart(part);
        // A copy: the part of a message that grows may be changed in place, and then equals what it was.
        if (tool) return <ToolCard key={tool.toolCallId} part={{ ...tool }} live={live} told={decided.get(tool.toolCallId)} subs={subs.filter((one) => one.toolCallId === tool.toolCallId)} />;
        switch (part.type) {
          case "text":
            return part.text.trim() ? <Markdown key={key} text={part.text} live={live && part.state === "streaming"} /> : null;
          case "reasoning":
            return part.text ? <Thinking key={key} id={key} text={part.text} live={live && part.state === "streaming"} /> : null;
          case "data-subagent": {
            const data = subs.find((one) => one === (part as { data: unknown }).data);
            return data && !calls.has(data.toolCallId) ? <SubAgent key={data.sessionId} data={data} /> : null;
          }
          case "data-output":
            return (
              <section key={key} className="rounded-lg border border-line" aria-label="Result" data-testid="output">
                <h2 className="border-b border-line px-3 py-1.5 text-xs font-medium text-quiet">Result</h2>
                <div className="px-3 py-2">
                  <JsonView value={(part as { data: unknown }).data} label="result" />
                </div>
              </section>
            );
          case "data-resume-rejected":
            return (
              <p key={key} className="text-sm text-waiting">
                An answer came too late and was not used.
              </p>
            );
          case "file":
            return (
              <p key={key} className="text-sm text-quiet">
                [file: <Visible text={part.filename ?? part.mediaType} />]
              </p>
            );
          default: {
            const event = customEvent(part);
            return event && <EventLine key={key} id={key} {...event} />;
          }
        }
      })}
    </article>
  );
});
