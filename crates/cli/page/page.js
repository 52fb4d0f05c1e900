// A chat with an agent over its routes: /start and /resume begin a turn, /sse shows it, and
// /submit-tool-result answers what waits. The session is named in the address, so a page that is
// loaded again shows all of it and goes on.

const at = (id) => document.getElementById(id);
const [log, agent, say, text, send, stop, state] = ["log", "agent", "say", "text", "send", "stop", "state"].map(at);

/** The session, or nothing before the first message. */
let session = named();
/** The last chunk that was shown. */
let cursor = 0;
/** The open stream. */
let source = null;
/** What the user said, one text per turn. */
let said = [];

/** The session that the address names. */
function named() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

async function ask(path, body) {
  const init = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await fetch(path, init);
  const answer = await response.json().catch(() => ({ error: `The server answered ${response.status}.` }));
  if (!response.ok) {
    const text = [answer.error, answer.detail].filter(Boolean).join(" ");
    throw Object.assign(new Error(text), { code: answer.code });
  }
  return answer;
}

/** Does something, and shows why it did not work. */
async function attempt(what) {
  try {
    return await what();
  } catch (error) {
    show("error", error.message);
  }
}

// --- what is shown

function element(tag, className, content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== undefined) made.textContent = content;
  return made;
}

function place(made) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  log.append(made);
  if (atEnd) log.scrollTop = log.scrollHeight;
  return made;
}

const show = (className, content) => place(element("p", className, content));
const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function folded(className, title) {
  const made = element("details", className);
  made.append(element("summary", "", title), element("pre"));
  return place(made);
}

/** The last element, if it is of this kind and step; or else a new one. */
function growing(kind, chunk, make) {
  const key = `${kind} ${chunk.runId} ${chunk.step}`;
  const last = log.lastElementChild;
  if (last?.dataset.key === key) return last;
  const made = make();
  made.dataset.key = key;
  made.dataset.step = `${chunk.runId} ${chunk.step}`;
  return made;
}

function tool(chunk) {
  const known = log.querySelector(`[data-call="${CSS.escape(chunk.toolCallId)}"]`);
  if (known) return known;
  const made = folded("tool", chunk.toolName);
  made.dataset.call = chunk.toolCallId;
  made.dataset.step = `${chunk.runId} ${chunk.step}`;
  return made;
}

function toolEnded(chunk, word, result) {
  const made = tool(chunk);
  made.querySelector("summary").textContent = `${chunk.toolName}: ${word}`;
  made.querySelector("pre").textContent += `\n${plain(result)}`;
}

async function userSaid(turn) {
  const bubble = show("user", said[turn - 1] ?? "");
  if (said[turn - 1] === undefined) {
    await attempt(readSaid);
    bubble.textContent = said[turn - 1] ?? "";
  }
}

async function readSaid() {
  const all = [];
  for (let more = true; more; ) {
    const path = `sessions/${encodeURIComponent(session)}/messages?limit=200&offset=${all.length}`;
    const page = await ask(path);
    all.push(...page.messages);
    more = page.hasMore && page.messages.length > 0;
  }
  said = all.filter((one) => one.role === "user" && !one.metadata?.hidden).map((one) => one.content);
}

const chunks = {
  run_started: (chunk) => {
    for (const card of log.querySelectorAll(".card")) card.remove();
    if (["execute", "with_message"].includes(chunk.trigger)) userSaid(chunk.turn);
  },
  text_delta: (chunk) => {
    growing("text", chunk, () => show("text", "")).textContent += chunk.delta;
  },
  thinking: (chunk) => {
    growing("thinking", chunk, () => folded("thinking", "Thinking")).lastElementChild.textContent += chunk.content;
  },
  tool_start: (chunk) => {
    tool(chunk).querySelector("pre").textContent = plain(chunk.arguments);
  },
  tool_approval_request: (chunk) => {
    tool(chunk).querySelector("pre").textContent = plain(chunk.input);
  },
  tool_approval_response: (chunk) => {
    show("note", chunk.approved ? "Approved." : `Denied. ${chunk.reason ?? ""}`);
  },
  tool_end: (chunk) => toolEnded(chunk, "done", chunk.result),
  tool_error: (chunk) => toolEnded(chunk, "failed", chunk.error),
  tool_input_error: (chunk) => toolEnded(chunk, "not run", chunk.error),
  tool_output_error: (chunk) => toolEnded(chunk, "failed", chunk.error),
  output: (chunk) => place(element("pre", "output", plain(chunk.output))),
  error: (chunk) => show(chunk.recoverable ? "note" : "error", chunk.error),
  run_interrupted: (chunk) => show("note", `Stopped. ${chunk.reason ?? ""}`),
  step_discarded: discard,
  stream_resync: discard,
};

/** What a step said that is thrown away is not shown any more. */
function discard(chunk) {
  for (const made of log.querySelectorAll(`[data-step="${CSS.escape(`${chunk.runId} ${chunk.step}`)}"]`)) made.remove();
}

// --- following a run

function busy(is) {
  text.disabled = send.disabled = is;
  stop.hidden = !is;
  state.textContent = is ? "Working…" : "";
  if (!is) text.focus();
}

function follow() {
  source?.close();
  busy(true);
  const query = new URLSearchParams({ sessionId: session, fromSequence: cursor });
  // A connection that drops is opened again by the browser, after the last chunk that came.
  source = new EventSource(`sse?${query}`);
  source.onopen = () => busy(true);
  source.onmessage = (event) => {
    cursor = Number(event.lastEventId);
    const chunk = JSON.parse(event.data);
    chunks[chunk.type]?.(chunk);
  };
  source.addEventListener("end", (event) => {
    source.close();
    attempt(() => ended(JSON.parse(event.data)));
  });
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) {
      state.textContent = "The connection dropped; trying again…";
      return;
    }
    busy(false);
    show("error", "This session cannot be read. Begin a new chat.");
  };
}

async function ended(end) {
  busy(false);
  const told = log.lastElementChild?.className === "error";
  if (end.status === "failed" && !told) show("error", end.error?.message ?? "The run failed.");
  if (!end.suspended) return;
  state.textContent = "Waiting for you.";
  text.disabled = send.disabled = true;
  const now = await ask(`status?${new URLSearchParams({ sessionId: session })}`);
  for (const call of now.pending) place(card(call));
  if (!now.pending.length) await goOn();
}

/** All is answered, perhaps elsewhere: whoever is first goes on. */
async function goOn() {
  try {
    await ask("resume", { sessionId: session });
  } catch (error) {
    if (!["ALREADY_RUNNING", "ALREADY_COMPLETED"].includes(error.code)) throw error;
  }
  follow();
}

// --- what waits for a person

function card(call) {
  const made = element("form", "card");
  const title = call.kind === "approval" ? `Run ${call.toolName}?` : (call.input?.title ?? call.toolName);
  made.append(element("strong", "", title));
  const fields = call.kind === "client" && Array.isArray(call.input?.fields) ? call.input.fields.map(String) : [];
  if (!fields.length) made.append(element("pre", "", plain(call.input)));
  const inputs = (fields.length ? fields : [call.kind === "approval" ? "Reason, if not" : "Result, as JSON or text"]).map((name) => {
    const label = element("label", "", `${name} `);
    const input = label.appendChild(element("input"));
    input.name = name;
    made.append(label);
    return input;
  });
  const button = (word, answer) => {
    const pressed = made.appendChild(element("button", "", word));
    pressed.type = "button";
    pressed.onclick = () => attempt(() => submit(call, made, answer()));
  };
  if (call.kind === "approval") {
    button("Approve", () => ({ approved: true }));
    button("Deny", () => ({ approved: false, reason: inputs[0].value || undefined }));
  } else {
    button("Send", () => ({ result: fields.length ? Object.fromEntries(inputs.map((one) => [one.name, one.value])) : read(inputs[0].value) }));
    button("It failed", () => ({ error: inputs.map((one) => one.value).join(" ") || "the user could not do it" }));
  }
  made.onsubmit = (event) => event.preventDefault();
  return made;
}

function read(value) {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

async function submit(call, made, answer) {
  const { toolCallId, approvalId, digest, runId } = call;
  const kind = call.kind === "approval" ? "approval-response" : "client-tool-result";
  const body = { sessionId: call.rootSessionId, kind, toolCallId, approvalId, digest, runId, ...answer };
  const { continuation } = await ask("submit-tool-result", body);
  made.remove();
  if (continuation === "caller_resumes") return goOn();
  // Somebody else may have answered, and it went on without this page.
  if (continuation !== "none" || !log.querySelector(".card")) follow();
}

// --- what the user does

say.onsubmit = (event) => {
  event.preventDefault();
  const message = text.value.trim();
  if (!message || send.disabled) return;
  busy(true);
  attempt(async () => {
    if (session) {
      await ask("resume", { sessionId: session, mode: "with_message", message });
    } else {
      const started = await ask("start", { agentType: agent.value, message });
      session = started.sessionId;
      history.replaceState(null, "", `#${encodeURIComponent(session)}`);
      agent.disabled = true;
    }
    said.push(message);
    text.value = "";
    follow();
    return true;
  }).then((started) => started || busy(false));
};

stop.onclick = () => attempt(() => ask("interrupt", { sessionId: session }));

at("fresh").onclick = () => {
  location.hash = "";
  location.reload();
};

window.onhashchange = () => {
  if (named() !== session) location.reload();
};

attempt(async () => {
  const { agents, defaultAgentType } = await ask("agents");
  for (const one of agents) {
    const option = element("option", "", one.agentType);
    option.title = one.description;
    option.selected = one.agentType === defaultAgentType;
    agent.append(option);
  }
  if (!session) return;
  const { agentType } = await ask(`status?${new URLSearchParams({ sessionId: session })}`);
  agent.value = agentType;
  agent.disabled = true;
  await readSaid();
  follow();
});
