// What a caller does with a client that is generated from /openapi.json: start, status, submit,
// messages, and an error with its type. Lines under `@ts-expect-error` must not compile.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Pending = components["schemas"]["PendingView"];
type Client = ReturnType<typeof createClient<paths>>;

function expect(what: string, found: unknown, wanted: unknown) {
  const [have, want] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (have !== want) throw new Error(`${what}: ${have} is not ${want}`);
}

/** Reads the stream until it ends, which it does when the run ends or waits. */
async function ended(client: Client, sessionId: string, after: number) {
  const read = await client.GET("/sse", {
    params: { query: { sessionId, fromSequence: after } },
    parseAs: "text",
  });
  if (!read.data?.includes("event: end")) throw new Error(`no end: ${read.data}`);
}

async function waits(client: Client, sessionId: string): Promise<[Pending, number]> {
  const { data, error } = await client.GET("/status", { params: { query: { sessionId } } });
  if (error) throw new Error(error.detail);
  const [call] = data.pending;
  if (!call) throw new Error(`nothing waits: ${JSON.stringify(data)}`);
  return [call, data.streamSequence];
}

export async function smoke(baseUrl: string, token: string) {
  const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${token}` } });
  const sessionId = "generated";
  const started = await client.POST("/start", {
    body: { sessionId, agentType: "a", message: [{ role: "user", content: "Pay for it." }], tags: ["x", "y"] },
  });
  expect("start", started.data?.sessionId, sessionId);
  await ended(client, sessionId, 0);

  const [question, asked] = await waits(client, sessionId);
  expect("kind", question.kind satisfies "client" | "approval", "approval");
  const approved = await client.POST("/submit-tool-result", {
    body: {
      sessionId,
      kind: "approval-response",
      toolCallId: question.toolCallId,
      approvalId: question.approvalId ?? "",
      approved: false,
      reason: "too dear",
      digest: question.digest,
      runId: question.runId,
    },
  });
  expect("submit", approved.data, { status: "accepted", continuation: "new_run" });
  await ended(client, sessionId, asked);

  const [color] = await waits(client, sessionId);
  const answered = await client.POST("/submit-tool-result", {
    body: { sessionId, kind: "client-tool-result", toolCallId: color.toolCallId, result: { color: "red" } },
  });
  expect("result", answered.data?.status satisfies string | undefined, "accepted");
  await client.POST("/submit-tool-result", {
    // @ts-expect-error: neither a result nor an error
    body: { sessionId, kind: "client-tool-result", toolCallId: color.toolCallId },
  });

  const missing = await client.GET("/status", { params: { query: { sessionId: "never" } } });
  expect("status of an error", missing.response.status, 404);
  expect("code", missing.error?.code, "NOT_FOUND");
  // @ts-expect-error: no such code
  if (missing.error?.code === "NO_SUCH_CODE") throw new Error("it compiled");

  const listed = await client.GET("/sessions", {
    params: { query: { status: ["active", "completed"], tags: ["x", "y"], limit: 5 } },
  });
  expect("list", listed.data?.items.map((session) => session.sessionId), [sessionId]);
  const filtered = await client.GET("/sessions", { params: { query: { metadata: { no: "such" } } } });
  expect("filtered", filtered.data?.total, 0);

  const said = await client.GET("/sessions/{id}/messages", { params: { path: { id: sessionId } } });
  expect("roles", said.data?.messages.slice(0, 3).map((one) => one.role), ["user", "assistant", "tool"]);
  expect("denial", said.data?.messages[2]?.status satisfies string | undefined, "denied");
  const gone = await client.DELETE("/sessions/{id}", { params: { path: { id: sessionId } } });
  expect("delete", gone.response.status, 204);
}
