const isMac = /mac|iphone|ipad/i.test(navigator.platform);

export const MOD = isMac ? "⌘" : "Ctrl";

/** A key, as it is written on it. */
export function Key({ children }: { children: string }) {
  return <kbd className="inline-flex h-5 min-w-5 items-center justify-center rounded border border-line bg-sunken px-1 font-sans text-xs text-quiet">{children}</kbd>;
}
