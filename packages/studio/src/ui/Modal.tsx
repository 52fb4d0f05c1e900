import { Dialog } from "radix-ui";
import type { ReactNode } from "react";

type Props = {
  open: boolean;
  onOpenChange(open: boolean): void;
  title: string;
  /** Whether the title is only for those who hear the page. */
  hideTitle?: boolean;
  shape?: "centre" | "top" | "drawer";
  children: ReactNode;
  "data-testid"?: string;
};

const shapes = {
  centre: "left-1/2 top-1/2 w-[min(440px,calc(100vw-32px))] max-h-[calc(100dvh-32px)] -translate-x-1/2 -translate-y-1/2 rounded-xl overflow-y-auto",
  top: "left-1/2 top-[12dvh] w-[min(560px,calc(100vw-24px))] max-h-[70dvh] -translate-x-1/2 rounded-xl overflow-hidden",
  drawer: "inset-y-0 left-0 w-[min(280px,calc(100vw-40px))] border-r border-line",
};

/** A dialog. Its backdrop is a plain element: the one of Radix locks scrolling with a style tag, which the policy of the page forbids. */
export function Modal({ open, onOpenChange, title, hideTitle = false, shape = "centre", children, ...rest }: Props) {
  return (
    <Dialog.Root open={open} onOpenChange={onOpenChange}>
      <Dialog.Portal>
        <div className="fixed inset-0 z-40 animate-appear bg-[#00000066]" />
        <Dialog.Content
          aria-describedby={undefined}
          onOpenAutoFocus={(event) => {
            if (shape !== "drawer") return;
            // Its first control would show its label over the others.
            event.preventDefault();
            (event.target as HTMLElement | null)?.focus?.();
          }}
          className={`fixed z-50 flex animate-appear flex-col bg-surface shadow-2xl outline-none ${shape === "drawer" ? "" : "border border-line"} ${shapes[shape]}`}
          {...rest}
        >
          <Dialog.Title className={hideTitle ? "sr-only" : "px-5 pt-4 text-lg font-semibold"}>{title}</Dialog.Title>
          {children}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
