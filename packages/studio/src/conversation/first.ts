// Sessions whose first message is on its way. Each is remembered with that message, and with its agent, until the
// server has it: a reload, or a server that is gone, loses nothing.

import { readStored, write } from "../lib/stored";

export type Start = { agentType: string | undefined; text: string };

/** Those that were begun on this page. */
const begun = new Map<string, Start>();

const key = (id: string) => `helix.start.${id}`;

/** Under which the draft of a session is kept. */
export const draftKey = (id: string) => `helix.draft.${id}`;

export function begin(agentType: string, text: string): string {
  const id = `chat-${crypto.randomUUID()}`;
  begun.set(id, { agentType, text });
  keepStart(id, { agentType, text });
  return id;
}

export const begunHere = (id: string) => begun.get(id);

/** Remembers the message with which a session begins, as long as the server does not have it. */
export const keepStart = (id: string, start: Start) => write(key(id), JSON.stringify(start));

/** Forgets how a session begins: the server has it. */
export const forgetStart = (id: string) => readStored(key(id)) && write(key(id), "");

/** Empties the draft of a session whose message the server took after all, though its answer was lost. */
export function dropDraft(id: string, taken: string[]) {
  if (taken.includes(readStored(draftKey(id)).trim())) write(draftKey(id), "");
}

/** How a session begins that the server never took, as far as is known here. */
export function startOf(id: string): Start | undefined {
  try {
    return JSON.parse(readStored(key(id))) as Start;
  } catch {
    return undefined;
  }
}

/** Puts the message of such a session back into its draft, before what was written there since. */
export function takeBack(id: string): Start | undefined {
  const start = startOf(id);
  if (start?.text) {
    const draft = readStored(draftKey(id));
    if (!draft.includes(start.text)) write(draftKey(id), draft.trim() ? `${start.text}\n${draft}` : start.text);
    keepStart(id, { ...start, text: "" });
  }
  return start;
}
