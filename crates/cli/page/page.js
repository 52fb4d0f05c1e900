// A chat with an agent over its routes: /start and /resume begin a turn, /sse shows it, and
// /submit-tool-result answers what waits. The session is named in the address, so a page that is
// loaded again shows all of it and goes on.

import { json, result, visible } from "./visible.js";

/** How often it is looked whether a question was answered elsewhere, in milliseconds. */
const LOOK_EVERY = 1000;

const at = (id) => document.getElementById(id);
const [log, agent, say, text, send, stop, state] = ["log", "agent", "say", "text", "send", "stop", "state"].map(at);

/** The session, or nothing before the first message. */
let session = named();
/** The last chunk that was shown. */
let cursor = 0;
/** The open stream. */
let source = null;
/** Whether a run is being followed. */
let following = false;
/** The run that waits for answers, as far as it was shown. */
let paused = null;
/** The next look at open questions. */
let looking = 0;
/** What the user said, one text per turn. */
let said = [];
/** The agents as they are configured: of each, what its tools are for. */
const configured = new Map();
/** Which agent a session talks to. */
const agentOf = new Map();

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
    show("error", visible(error.message, "\n"));
  }
}

// --- what is shown

function element(tag, className, content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== undefined) made.append(content);
  return made;
}

function place(made) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  log.append(made);
  if (atEnd) log.scrollTop = log.scrollHeight;
  return made;
}

const show = (className, ...content) => {
  const made = element("p", className);
  made.append(...content);
  return place(made);
};

/** Something that is said. It may use the direction that its language needs, inside of its bubble. */
function speech(made) {
  made.dir = "auto";
  made.classList.add("speech");
  return made;
}

const statusOf = (id) => ask(`status?${new URLSearchParams({ sessionId: id })}`);

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

/** Which call it is: a sub-agent may use the ids of its parent. */
const callKey = ({ sessionId, toolCallId }) => `${sessionId} ${toolCallId}`;
const ofCall = (kind, call) => log.querySelector(`${kind}[data-call="${CSS.escape(callKey(call))}"]`);

function tool(chunk) {
  const known = ofCall(".tool", chunk);
  if (known) return known;
  const made = folded("tool", visible(chunk.toolName));
  made.dataset.call = callKey(chunk);
  made.dataset.step = `${chunk.runId} ${chunk.step}`;
  return made;
}

function toolEnded(chunk, word, value) {
  const made = tool(chunk);
  made.querySelector("summary").replaceChildren(visible(chunk.toolName), `: ${word}`);
  made.querySelector("pre").append("\n", result(value));
  const card = ofCall(".question", chunk);
  if (card) settle(card, word === "done" ? ["Answered."] : ["It ended with an error: ", result(value)], true);
}

async function userSaid(turn) {
  const bubble = speech(show("user", said[turn - 1] ?? ""));
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
    if (["execute", "with_message"].includes(chunk.trigger)) userSaid(chunk.turn);
  },
  text_delta: (chunk) => {
    growing("text", chunk, () => speech(show("text"))).textContent += chunk.delta;
  },
  thinking: (chunk) => {
    speech(growing("thinking", chunk, () => folded("thinking", "Thinking")).lastElementChild).textContent += chunk.content;
  },
  tool_start: (chunk) => {
    tool(chunk).querySelector("pre").replaceChildren(json(chunk.arguments));
  },
  tool_approval_request: (chunk) => {
    tool(chunk).querySelector("pre").replaceChildren(json(chunk.input));
  },
  tool_approval_response: (chunk) => {
    const card = ofCall(".question", chunk);
    if (card) settle(card, decision(chunk), true);
    else show("note", ...decision(chunk));
  },
  tool_end: (chunk) => toolEnded(chunk, "done", chunk.result),
  tool_error: (chunk) => toolEnded(chunk, "failed", chunk.error),
  tool_input_error: (chunk) => toolEnded(chunk, "not run", chunk.error),
  tool_output_error: (chunk) => toolEnded(chunk, "failed", chunk.error),
  output: (chunk) => place(element("pre", "output", result(chunk.output))),
  error: (chunk) => show(chunk.recoverable ? "note" : "error", visible(chunk.error, "\n")),
  run_interrupted: (chunk) => show("note", "Stopped. ", visible(chunk.reason ?? "")),
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
  // Before the server has answered there is nothing to stop.
  stop.hidden = !is || !session;
  if (!is) stopping(false);
  state.textContent = is ? "Working…" : "";
  if (!is) text.focus();
}

/** Shows that the run was asked to stop and has not ended yet. */
function stopping(is) {
  stop.disabled = is;
  stop.textContent = is ? "Stopping…" : "Stop";
}

function follow() {
  source?.close();
  clearTimeout(looking);
  following = true;
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
    following = false;
    attempt(() => ended(JSON.parse(event.data)));
  });
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) {
      state.textContent = "The connection dropped; trying again…";
      return;
    }
    following = false;
    busy(false);
    show("error", "This session cannot be read. Begin a new chat.");
  };
}

async function ended(end) {
  busy(false);
  const told = log.lastElementChild?.className === "error";
  if (end.status === "failed" && !told) show("error", visible(end.error?.message ?? "The run failed.", "\n"));
  if (!end.suspended) {
    for (const card of log.querySelectorAll(".card")) settle(card, ["It does not wait any more."]);
    return;
  }
  state.textContent = "Waiting for you.";
  text.disabled = send.disabled = true;
  const now = await statusOf(session);
  paused = now.runId;
  await waiting(now);
}

/** Shows what waits for a person, and what was answered elsewhere. */
async function waiting(now) {
  const open = new Set(now.pending.map(callKey));
  for (const card of log.querySelectorAll(".card")) {
    if (open.has(card.dataset.call)) continue;
    const answer = now.answered?.find((one) => callKey(one) === card.dataset.call);
    settle(card, answer ? decision(answer) : ["It was answered elsewhere."]);
  }
  for (const call of now.pending) {
    const about = await described(call);
    if (!ofCall(".card", call)) place(question(call, about));
  }
  if (open.size) return lookAgain();
  // Nobody may have gone on yet; a run that has ended otherwise is only shown.
  return now.runStatus?.startsWith("suspended") ? goOn() : follow();
}

function lookAgain() {
  clearTimeout(looking);
  looking = setTimeout(() => attempt(look), LOOK_EVERY);
}

/** Looks whether somebody answered elsewhere. */
async function look() {
  // The server may be away for a while; the question stays.
  const now = await statusOf(session).catch(() => null);
  if (following) return;
  if (!now) return lookAgain();
  await (now.runId === paused ? waiting(now) : follow());
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

/** What the configuration says about the tool of a call: the model has no say in it. */
async function described(call) {
  if (!agentOf.has(call.sessionId)) {
    const asking = await statusOf(call.sessionId).catch(() => null);
    if (asking) agentOf.set(call.sessionId, asking.agentType);
  }
  return configured.get(agentOf.get(call.sessionId))?.get(call.toolName);
}

function question(call, about) {
  const made = element("form", "card");
  made.classList.add("question");
  made.dataset.call = callKey(call);
  const isApproval = call.kind === "approval";
  const title = made.appendChild(element("strong", "", isApproval ? "Run " : "Answer "));
  title.append(visible(call.toolName), isApproval ? "?" : "");
  if (about) made.append(element("p", "about", visible(about, "\n")));
  made.append(element("pre", "", json(call.input)));
  const fields = !isApproval && Array.isArray(call.input?.fields) ? call.input.fields.map(String) : [];
  const inputs = (fields.length ? fields : [isApproval ? "Reason, if not" : "Result, as JSON or text"]).map((name) => {
    const label = element("label", "", visible(name));
    const input = element("input");
    input.name = name;
    label.append(" ", input);
    made.append(label);
    return input;
  });
  const button = (word, answer) => {
    const pressed = made.appendChild(element("button", "", word));
    pressed.type = "button";
    pressed.onclick = () => attempt(() => submit(call, made, answer()));
  };
  if (isApproval) {
    button("Approve", () => ({ approved: true }));
    button("Deny", () => ({ approved: false, reason: inputs[0].value || undefined }));
  } else {
    button("Send", () => ({ result: fields.length ? Object.fromEntries(inputs.map((one) => [one.name, one.value])) : read(inputs[0].value) }));
    button("It failed", () => ({ error: inputs.map((one) => one.value).join(" ") || "the user could not do it" }));
  }
  made.onsubmit = (event) => event.preventDefault();
  return made;
}

/** What was decided, and by whom where that is known. */
function decision({ approved, reason, decidedBy }) {
  const word = approved === undefined ? "Answered" : approved ? "Approved" : "Denied";
  const who = decidedBy ? [" by ", visible(decidedBy)] : [];
  return [word, ...who, ...(reason ? [": ", visible(reason)] : ["."])];
}

/** Takes the means to answer from a question, and says what became of it. What is final stays. */
function settle(card, what, isFinal = false) {
  if (card.classList.replace("card", "decided")) {
    for (const one of card.querySelectorAll("button, label")) one.remove();
    card.appendChild(element("p", "outcome")).append(element("span", "late"), element("span", "what"));
  }
  if (card.dataset.final) return;
  if (isFinal) card.dataset.final = "yes";
  card.querySelector(".what").replaceChildren(...what);
}

/** An answer that does not count. What was decided instead is in the stream, or in the status. */
function cameTooLate(card) {
  if (card.classList.contains("card")) settle(card, ["It does not wait any more."]);
  card.querySelector(".late").textContent = "Your answer came too late and does not count. ";
  if (!following) follow();
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
  const buttons = [...made.querySelectorAll("button")];
  for (const one of buttons) one.disabled = true;
  try {
    const { status, continuation } = await ask("submit-tool-result", body);
    if (status !== "accepted") return cameTooLate(made);
    settle(made, decision(answer));
    if (continuation === "caller_resumes") return await goOn();
    if (continuation !== "none" || !log.querySelector(".card")) follow();
  } catch (error) {
    if (error.message.includes("unknown_tool_call")) return cameTooLate(made);
    for (const one of buttons) one.disabled = false;
    throw error;
  }
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

stop.onclick = async () => {
  stopping(true);
  const answer = await attempt(() => ask("interrupt", { sessionId: session }));
  if (!answer?.accepted) stopping(false);
};

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
    configured.set(one.agentType, new Map(one.tools.map((tool) => [tool.name, tool.description])));
    option.selected = one.agentType === defaultAgentType;
    agent.append(option);
  }
  if (!session) return;
  const { agentType } = await statusOf(session);
  agent.value = agentType;
  agent.disabled = true;
  await readSaid();
  follow();
});
