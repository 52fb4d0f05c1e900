/** Whether a key press belongs to something that is typed in, or that is open over the page. */
export function isTyping(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return true;
  const on = event.target as HTMLElement | null;
  if (on?.closest?.("input, textarea, select, [contenteditable], [role=dialog], [role=menu]")) return true;
  return document.querySelector("[role=dialog]") !== null;
}
