import { Bot, Check, ChevronDown } from "lucide-react";
import { DropdownMenu } from "radix-ui";

import type { Agent } from "../api/types";
import { Visible } from "../ui/Visible";

/** Chooses the agent of a new chat. */
export function AgentPicker({ agents, value, onChange }: { agents: Agent[]; value: string; onChange(agentType: string): void }) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>
        <button type="button" data-testid="agent-picker" data-agent={value} aria-label={`Agent: ${value}`} className="inline-flex h-7 max-w-[60%] min-w-0 items-center gap-1.5 rounded-md px-2 text-sm font-medium hover:bg-raised">
          <Bot size={14} className="shrink-0 text-agent" aria-hidden />
          <span className="truncate">
            <Visible text={value} />
          </span>
          <ChevronDown size={13} className="shrink-0 text-quiet" aria-hidden />
        </button>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content align="start" sideOffset={6} collisionPadding={12} className="z-50 max-h-[min(360px,var(--radix-dropdown-menu-content-available-height))] w-[min(340px,calc(100vw-24px))] animate-appear overflow-y-auto rounded-lg border border-line bg-surface p-1 shadow-xl">
          <DropdownMenu.RadioGroup value={value} onValueChange={onChange}>
            {agents.map((one) => (
              <DropdownMenu.RadioItem key={one.agentType} value={one.agentType} data-testid="agent-option" className="flex cursor-pointer items-start gap-2 rounded-md px-2 py-1.5 outline-none data-[highlighted]:bg-hover">
                <span className="inline-flex h-5 w-4 shrink-0 items-center">
                  <DropdownMenu.ItemIndicator>
                    <Check size={14} className="text-accent" aria-hidden />
                  </DropdownMenu.ItemIndicator>
                </span>
                <span className="min-w-0">
                  <span className="block font-medium break-words">
                    <Visible text={one.agentType} />
                  </span>
                  <span className="block text-xs break-words text-quiet">{one.description}</span>
                </span>
              </DropdownMenu.RadioItem>
            ))}
          </DropdownMenu.RadioGroup>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
