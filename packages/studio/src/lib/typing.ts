/** Inputs that are pressed, not typed in. */
const PRESSED = new Set(["checkbox", "button", "submit", "reset"]);

/** Whether keys are for a control: one that is typed in, or chosen from with them. */
export const takesKeys = (control: { tagName: string; type?: string }): boolean => control.tagName !== "INPUT" || !PRESSED.has(control.type ?? "text");

/** Whether a key is for what puts characters together, and not for the page. Safari ends that before it tells of the key. */
export const isComposing = (event: { isComposing: boolean; keyCode: number }): boolean => event.isComposing || event.keyCode === 229;

/** Whether a key press belongs to something that is typed in, or that is open over the page. */
export function isTyping(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return true;
  const on = event.target as HTMLElement | null;
  const control = on?.closest?.<HTMLInputElement>("input, textarea, select, [contenteditable]");
  if ((control && takesKeys(control)) || on?.closest?.("[role=dialog], [role=menu]")) return true;
  return document.querySelector("[role=dialog]") !== null;
}
