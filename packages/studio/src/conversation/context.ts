import { createContext, useContext } from "react";

import type { Decision } from "../api/decisions";
import type { PendingCall } from "../api/types";

/** What the cards of a conversation need to know about it. */
export type Surroundings = {
  sessionId: string;
  agentType: string | undefined;
  pending: Map<string, PendingCall>;
  durations: Map<string, number>;
  /** Who decided about calls of before this page was opened, by the id of the call. */
  decided: Map<string, Decision>;
  /** Whether a run goes on. */
  busy: boolean;
  /** Whether the run waits for an answer. */
  paused: boolean;
  /** Whether nothing can be answered here. */
  readOnly: boolean;
  /** Shows how the session goes on after an answer. */
  follow(): void;
};

const Context = createContext<Surroundings>({
  sessionId: "",
  agentType: undefined,
  pending: new Map(),
  durations: new Map(),
  decided: new Map(),
  busy: false,
  paused: false,
  readOnly: true,
  follow: () => {},
});

export const SurroundingsProvider = Context.Provider;
export const useSurroundings = () => useContext(Context);
