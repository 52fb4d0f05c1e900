/** The first messages of sessions that were begun on this page and are not yet on the server. */
const begun = new Map<string, { agentType: string; text: string }>();

export function begin(agentType: string, text: string): string {
  const id = `chat-${crypto.randomUUID()}`;
  begun.set(id, { agentType, text });
  return id;
}

export const begunHere = (id: string) => begun.get(id);
