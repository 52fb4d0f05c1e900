import { Outlet, useLocation } from "@tanstack/react-router";
import { Tooltip } from "radix-ui";
import { useEffect } from "react";

import { isTyping } from "../lib/typing";
import { Modal } from "../ui/Modal";
import { ConnectionBar } from "./ConnectionBar";
import { KeysHelp } from "./KeysHelp";
import { Palette } from "./Palette";
import { Rail } from "./Rail";
import { VersionBar } from "./VersionBar";
import { show, useOverlay } from "./ui-state";

/** The frame of every view: the rail, and the view beside it. */
export function Shell() {
  const overlay = useOverlay();
  const { href } = useLocation();
  useEffect(() => show(null), [href]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        show("palette");
      } else if (isTyping(event)) return;
      else if (event.key === "?") show("keys");
      else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLElement>("[data-testid=composer]")?.focus();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <Tooltip.Provider delayDuration={400}>
      <div className="flex h-dvh flex-col">
        <ConnectionBar />
        <VersionBar />
        <div className="flex min-h-0 grow">
          <aside className="hidden w-[260px] shrink-0 border-r border-line rail:block">
            <Rail />
          </aside>
          <main className="flex min-w-0 grow flex-col">
            <Outlet />
          </main>
        </div>
      </div>
      <Modal open={overlay === "rail"} onOpenChange={(is) => show(is ? "rail" : null)} title="Navigation" hideTitle shape="drawer" data-testid="rail-drawer">
        <Rail />
      </Modal>
      <Palette open={overlay === "palette"} />
      <KeysHelp open={overlay === "keys"} />
    </Tooltip.Provider>
  );
}
