import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ArrowUpRight, BotOff, Wrench } from "lucide-react";
import { useEffect } from "react";

import { sentence } from "../api/client";
import { agentsQuery } from "../api/queries";
import type { Agent } from "../api/types";
import { AgentPicker } from "../frame/AgentPicker";
import { Header } from "../frame/Header";
import { useStored } from "../lib/stored";
import { Logo } from "../ui/Logo";
import { Visible } from "../ui/Visible";
import { Composer } from "./Composer";
import { begin } from "./first";
import { isSubAgentCall, shownName } from "./parts";

const DRAFT = "helix.draft.new";
const MOST_TOOLS = 8;

/** A new chat: choose an agent, and write the first message. */
export function Home({ agent: wanted }: { agent: string | undefined }) {
  const { data, error } = useQuery(agentsQuery);
  const navigate = useNavigate();
  const [last, setLast] = useStored("helix.agent");
  const agents = data?.agents ?? [];
  const chosen = [wanted, last, data?.defaultAgentType].map((name) => agents.find((one) => one.agentType === name)).find(Boolean) ?? agents[0];
  useEffect(() => {
    document.title = "Helix Studio";
  }, []);

  const send = (text: string) => {
    if (!chosen) return;
    const session = begin(chosen.agentType, text);
    void navigate({ to: "/s/$session", params: { session } });
  };
  const choose = (agentType: string) => {
    setLast(agentType);
    void navigate({ to: "/", search: { agent: agentType }, replace: true });
  };
  return (
    <>
      <Header title="New chat" />
      <div className="flex min-h-0 grow flex-col overflow-x-hidden overflow-y-auto">
        <div className="mx-auto my-auto w-full max-w-[680px] px-4 py-8">
          {data && !chosen ? (
            <div className="grid justify-items-center gap-3 text-center" data-testid="no-agents">
              <BotOff size={28} className="text-quiet" aria-hidden />
              <h2 className="text-lg font-semibold">No agents</h2>
              <p className="text-sm text-quiet">The server has none. Add one to helix.toml, and start the server again.</p>
            </div>
          ) : (
            <>
              {chosen ? <About agent={chosen} /> : <div className="mb-6 h-24" />}
              {error && !data && <p className="mb-3 text-sm text-failed">{sentence(error)}</p>}
              <Composer
                draftKey={DRAFT}
                hint=""
                disabled={!chosen}
                onSend={send}
                before={chosen && <AgentPicker agents={agents} value={chosen.agentType} onChange={choose} />}
              />
              {chosen && <Examples agent={chosen} onChoose={send} />}
            </>
          )}
        </div>
      </div>
    </>
  );
}

function About({ agent }: { agent: Agent }) {
  return (
    <div className="mb-6">
      <div className="mb-2 flex items-center gap-2.5">
        <Logo size={24} />
        <h2 className="min-w-0 text-xl font-semibold break-words">
          <Visible text={agent.agentType} />
        </h2>
      </div>
      <p className="break-words text-quiet">{agent.description}</p>
      {agent.tools.length > 0 && (
        <ul className="mt-3 flex flex-wrap gap-1.5" aria-label="Tools">
          {agent.tools.slice(0, MOST_TOOLS).map((one) => (
            <li key={one.name} title={one.description} className="inline-flex max-w-full items-center gap-1.5 rounded-md border border-line px-1.5 py-0.5 text-xs text-quiet">
              <Wrench size={11} aria-hidden className={`shrink-0 ${isSubAgentCall(one.name) ? "text-agent" : ""}`} />
              <span className="truncate">
                <Visible text={shownName(one.name)} />
              </span>
              {(one.approval === "always" || one.approval === "when") && <span className="text-waiting">asks</span>}
            </li>
          ))}
          {agent.tools.length > MOST_TOOLS && <li className="px-1 py-0.5 text-xs text-quiet">and {agent.tools.length - MOST_TOOLS} more</li>}
        </ul>
      )}
    </div>
  );
}

function Examples({ agent, onChoose }: { agent: Agent; onChoose(text: string): void }) {
  const examples = agent.examples?.slice(0, 3) ?? [];
  if (!examples.length) return null;
  return (
    <ul className="mt-4 space-y-1" aria-label="Examples">
      {examples.map((one) => (
        <li key={one}>
          <button type="button" className="group flex min-h-9 w-full items-center gap-2 rounded-lg px-3 py-1.5 text-left text-quiet hover:bg-raised hover:text-text" data-testid="example" onClick={() => onChoose(one)}>
            <span className="min-w-0 grow break-words">{one}</span>
            <ArrowUpRight size={14} className="shrink-0 opacity-60" aria-hidden />
          </button>
        </li>
      ))}
    </ul>
  );
}
