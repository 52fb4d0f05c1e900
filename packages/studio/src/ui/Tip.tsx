import { Tooltip } from "radix-ui";
import type { ReactNode } from "react";

/** A label that appears beside a control, for those whose icon says too little. */
export function Tip({ text, children, side = "bottom" }: { text: ReactNode; children: ReactNode; side?: "top" | "bottom" | "right" | "left" }) {
  return (
    <Tooltip.Root>
      <Tooltip.Trigger asChild>{children}</Tooltip.Trigger>
      <Tooltip.Portal>
        <Tooltip.Content side={side} sideOffset={6} collisionPadding={8} className="z-50 max-w-72 rounded-md bg-text px-2 py-1 text-xs text-surface shadow-md">
          {text}
        </Tooltip.Content>
      </Tooltip.Portal>
    </Tooltip.Root>
  );
}
