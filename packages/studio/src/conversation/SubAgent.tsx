import { Link } from "@tanstack/react-router";
import { ArrowUpRight, Bot } from "lucide-react";
import { memo } from "react";

import type { SubAgentData } from "../api/types";
import { equal } from "../lib/json";
import { useKept } from "../lib/stored";
import { titleOf } from "../lib/summary";
import { Chevron } from "../ui/Disclosure";
import { Markdown } from "../ui/Markdown";
import { StateIcon, type StateName } from "../ui/State";
import { Visible } from "../ui/Visible";
import { useSurroundings } from "./context";
import { shownName } from "./parts";

const states: Record<SubAgentData["status"], StateName> = { running: "running", completed: "done", failed: "failed" };
const toolStates: Record<string, StateName> = { running: "running", waiting: "waiting", completed: "done", failed: "failed" };

/** What a sub-agent says and does, at a rail beside what its parent does. */
export const SubAgent = memo(function SubAgent({ data }: { data: SubAgentData }) {
  const [choice, setOpen] = useKept<boolean | null>(`sub ${data.sessionId} ${data.toolCallId}`, null);
  const { paused } = useSurroundings();
  const isRunning = data.status === "running";
  const open = choice ?? isRunning;
  return (
    <div className="ml-3 border-l-2 border-agent-line pt-1.5 pl-3" data-testid="sub-agent" data-session={data.sessionId}>
      <div className="flex min-w-0 items-center gap-1">
        <button type="button" aria-expanded={open} className="flex h-7 min-w-0 grow items-center gap-2 rounded-md px-1.5 text-left text-sm hover:bg-raised" onClick={() => setOpen(!open)}>
          <Bot size={14} className="shrink-0 text-agent" aria-hidden />
          <span className="shrink-0 font-medium">
            <Visible text={data.agentType} />
          </span>
          <StateIcon state={isRunning && paused ? "waiting" : (states[data.status] ?? "running")} size={13} />
          {!open && <span className="min-w-0 truncate text-quiet">{titleOf(data.text)}</span>}
          <span className="grow" />
          <Chevron open={open} />
        </button>
        <Link
          to="/s/$session"
          params={{ session: data.sessionId }}
          className="inline-flex h-7 items-center gap-1 rounded-md px-1.5 text-xs text-quiet hover:bg-raised hover:text-text"
          aria-label={`Open the session of ${data.agentType}`}
        >
          Open
          <ArrowUpRight size={12} aria-hidden />
        </Link>
      </div>
      {open && (
        <div className="space-y-1.5 px-1.5 pt-0.5 pb-1">
          {data.tools.map((one) => (
            <p key={one.toolCallId} className="flex items-center gap-2 text-sm text-quiet">
              <StateIcon state={toolStates[one.state] ?? "running"} size={13} />
              <Visible text={shownName(one.toolName)} />
            </p>
          ))}
          {data.text && <Markdown text={data.text} live={isRunning} />}
          {!data.text && !data.tools.length && <p className="text-sm text-quiet">{isRunning ? "Working…" : "It said nothing."}</p>}
        </div>
      )}
    </div>
  );
}, equal);
