import { useQuery } from "@tanstack/react-query";

import { sessionQuery } from "../api/queries";
import type { PendingCall } from "../api/types";

/** The agent that made a call. It is asked for only where the call is not of the session that is shown. */
export function useAsker(call: PendingCall, known?: { sessionId: string; agentType: string | undefined }): string | undefined {
  const isKnown = known?.sessionId === call.sessionId && known.agentType !== undefined;
  const { data } = useQuery({ ...sessionQuery(call.sessionId), enabled: !isKnown });
  return isKnown ? known.agentType : data?.agentType;
}
