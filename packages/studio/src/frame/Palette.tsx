import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Bot, Inbox, Keyboard, MessageSquare, Plus, SunMoon } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";

import { agentsQuery, titleQuery } from "../api/queries";
import { useNow } from "../lib/now";
import { useTheme } from "../lib/theme";
import { age } from "../lib/time";
import { isComposing } from "../lib/typing";
import { Modal } from "../ui/Modal";
import { Visible } from "../ui/Visible";
import { useSessions } from "./sessions";
import { show } from "./ui-state";

type Item = { id: string; icon: ReactNode; text: string; note?: string; run(): void };

const MOST = 60;

/** Finds sessions, agents and commands. */
export function Palette({ open }: { open: boolean }) {
  return (
    <Modal open={open} onOpenChange={(is) => show(is ? "palette" : null)} title="Find sessions, agents and commands" hideTitle shape="top" data-testid="palette">
      <Finder />
    </Modal>
  );
}

function Finder() {
  const navigate = useNavigate();
  const client = useQueryClient();
  const { data } = useQuery(agentsQuery);
  const { sessions } = useSessions();
  const [, setTheme] = useTheme();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const now = useNow(null);
  const base = useId();

  // Sessions without a title yet are looked up while the palette is open.
  useEffect(() => {
    for (const one of sessions.slice(0, MOST)) void client.prefetchQuery(titleQuery(one.sessionId));
  }, [client, sessions]);

  const all: Item[] = [
    { id: "new", icon: <Plus size={15} />, text: "New chat", run: () => void navigate({ to: "/" }) },
    { id: "inbox", icon: <Inbox size={15} />, text: "Inbox", run: () => void navigate({ to: "/inbox" }) },
    ...(data?.agents ?? []).map((one) => ({ id: `agent ${one.agentType}`, icon: <Bot size={15} />, text: one.agentType, note: "new chat", run: () => void navigate({ to: "/", search: { agent: one.agentType } }) })),
    ...sessions.map((one) => ({
      id: `session ${one.sessionId}`,
      icon: <MessageSquare size={15} />,
      text: client.getQueryData<string | null>(titleQuery(one.sessionId).queryKey) ?? one.sessionId,
      note: `${one.agentType} · ${age(one.updatedAt, now)}`,
      run: () => void navigate({ to: "/s/$session", params: { session: one.sessionId } }),
    })),
    { id: "light", icon: <SunMoon size={15} />, text: "Light colours", run: () => setTheme("light") },
    { id: "dark", icon: <SunMoon size={15} />, text: "Dark colours", run: () => setTheme("dark") },
    { id: "system", icon: <SunMoon size={15} />, text: "Colours as the system", run: () => setTheme("system") },
    { id: "keys", icon: <Keyboard size={15} />, text: "Show the keys", run: () => setTimeout(() => show("keys")) },
  ];
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((one) => words.every((word) => `${one.text} ${one.note ?? ""} ${one.id}`.toLowerCase().includes(word))).slice(0, MOST);
  const chosen = Math.min(at, found.length - 1);

  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [chosen]);

  const run = (item: Item | undefined) => {
    if (!item) return;
    show(null);
    item.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) setAt((chosen + by + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter" && !isComposing(event.nativeEvent)) run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        className="h-12 w-full shrink-0 border-b border-line bg-transparent px-4 text-lg outline-none"
        placeholder="Find sessions, agents, commands"
        aria-label="Find sessions, agents and commands"
        role="combobox"
        aria-expanded
        aria-controls={`${base}-list`}
        aria-activedescendant={found[chosen] ? `${base}-${chosen}` : undefined}
        autoFocus
        value={text}
        data-testid="palette-input"
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div ref={list} id={`${base}-list`} role="listbox" aria-label="Found" className="min-h-0 overflow-y-auto p-1.5">
        {found.map((one, index) => (
          <div
            key={one.id}
            id={`${base}-${index}`}
            role="option"
            aria-selected={index === chosen}
            data-testid="palette-item"
            className={`flex h-9 cursor-pointer items-center gap-2.5 rounded-md px-2.5 ${index === chosen ? "bg-hover" : ""}`}
            onPointerMove={() => setAt(index)}
            onClick={() => run(one)}
          >
            <span className="shrink-0 text-quiet" aria-hidden>
              {one.icon}
            </span>
            <span className="min-w-0 grow truncate">
              <Visible text={one.text} />
            </span>
            {one.note && <span className="shrink-0 text-xs text-quiet">{one.note}</span>}
          </div>
        ))}
        {!found.length && <p className="px-2.5 py-3 text-quiet">Nothing found.</p>}
      </div>
    </>
  );
}
