// A chat with an agent over its routes: /start and /resume begin a turn, /sse streams it, and
// /submit-tool-result answers pending calls. The id of the session is in the address, so a page that
// is reloaded shows the whole session and continues.

import { json, result, visible } from "./visible.js";

/** How often the page checks whether a pending call was answered elsewhere, in milliseconds. */
const POLL_INTERVAL = 1000;
/** How often the time that is left for an answer is shown, in milliseconds. */
const COUNTDOWN_INTERVAL = 500;

const byId = (id) => document.getElementById(id);
const [log, agent, form, text, send, stop, state] = ["log", "agent", "message-form", "text", "send", "stop", "state"].map(byId);

/** The id of the session; empty before the first message. */
let session = sessionInAddress();
/** The sequence of the last chunk that was shown. */
let cursor = 0;
/** The open event source, if any. */
let source = null;
/** Whether the page is reading the stream of a run. */
let following = false;
/** The suspended run whose pending calls are shown. */
let paused = null;
/** The timer of the next check for answers. */
let pollTimer = 0;
/** The messages of the user, and how many of them are shown. */
let userMessages = [];
let shownMessages = 0;
/** The number of user messages with which each run started. */
let messagesOfRun = new Map();
/** Resolves when the messages of all runs so far are shown. */
let showing = Promise.resolve();
/** The descriptions of the tools of each agent, from the configuration. */
const configured = new Map();
/** The agent of each session. */
const agentOf = new Map();

/** The id of the session in the address; empty if there is none. */
function sessionInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

/** Sends a request, POST if there is a body, and returns the JSON response. */
async function request(path, body) {
  const init = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await fetch(path, init);
  const answer = await response.json().catch(() => ({ error: `The server responded with status ${response.status}.` }));
  if (!response.ok) {
    const text = [answer.error, answer.detail].filter(Boolean).join(" ");
    throw Object.assign(new Error(text), { code: answer.code });
  }
  return answer;
}

/** Runs an action and shows its error, if it fails. */
async function attempt(action) {
  try {
    return await action();
  } catch (error) {
    show("error", visible(error.message, "\n"));
  }
}

// --- the log

function element(tag, className, content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== undefined) made.append(content);
  return made;
}

/** Adds an element to the log, and scrolls to it if the end of the log was visible. */
function append(made) {
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  log.append(made);
  if (atEnd) log.scrollTop = log.scrollHeight;
  return made;
}

const show = (className, ...content) => {
  const made = element("p", className);
  made.append(...content);
  return append(made);
};

/** Marks an element as a message, whose text may have its own direction. */
function speech(made) {
  made.dir = "auto";
  made.classList.add("speech");
  return made;
}

const statusOf = (id) => request(`status?${new URLSearchParams({ sessionId: id })}`);

function collapsible(className, title) {
  const made = element("details", className);
  made.append(element("summary", "", title), element("pre"));
  return append(made);
}

/** The last element of the log if it belongs to this kind and step, else a new one. */
function elementFor(kind, chunk, make) {
  const key = `${kind} ${chunk.runId} ${chunk.step}`;
  const last = log.lastElementChild;
  if (last?.dataset.key === key) return last;
  const made = make();
  made.dataset.key = key;
  made.dataset.step = `${chunk.runId} ${chunk.step}`;
  return made;
}

/** The key of a call. It includes the session, because a sub-agent may use the call ids of its parent. */
const callKey = ({ sessionId, toolCallId }) => `${sessionId} ${toolCallId}`;
const ofCall = (kind, call) => log.querySelector(`${kind}[data-call="${CSS.escape(callKey(call))}"]`);

function tool(chunk) {
  const known = ofCall(".tool", chunk);
  if (known) return known;
  const made = collapsible("tool", visible(chunk.toolName));
  made.dataset.call = callKey(chunk);
  made.dataset.step = `${chunk.runId} ${chunk.step}`;
  return made;
}

function showToolEnd(chunk, word, value) {
  const made = tool(chunk);
  made.querySelector("summary").replaceChildren(visible(chunk.toolName), `: ${word}`);
  made.querySelector("pre").append("\n", result(value));
  const card = ofCall(".question", chunk);
  if (card) closeQuestion(card, word === "done" ? ["Answered."] : ["The call failed: ", result(value)], true);
}

/** Shows the messages with which a run started, at this place of the log. */
function showUserMessages({ runId }) {
  const place = append(element("div"));
  showing = showing.then(() =>
    attempt(async () => {
      if (!messagesOfRun.has(runId)) await loadRuns();
      const end = shownMessages + (messagesOfRun.get(runId) ?? 1);
      if (userMessages.length < end) await loadUserMessages();
      place.append(...userMessages.slice(shownMessages, end).map((one) => speech(element("p", "user", one))));
      shownMessages = end;
    }),
  );
}

/** Reads all pages of a list of the session. */
async function readAll(list, of) {
  const all = [];
  for (let more = true; more; ) {
    const path = `sessions/${encodeURIComponent(session)}/${list}?limit=200&offset=${all.length}`;
    const page = await request(path);
    all.push(...page[of]);
    more = page.hasMore && page[of].length > 0;
  }
  return all;
}

async function loadUserMessages() {
  const all = await readAll("messages", "messages");
  userMessages = all.filter((one) => one.role === "user" && !one.metadata?.hidden).map((one) => one.content);
}

async function loadRuns() {
  const all = await readAll("runs", "items");
  messagesOfRun = new Map(all.map((run) => [run.runId, run.messages]));
}

const chunks = {
  run_started: (chunk) => {
    if (["execute", "with_message"].includes(chunk.trigger)) showUserMessages(chunk);
  },
  text_delta: (chunk) => {
    elementFor("text", chunk, () => speech(show("text"))).textContent += chunk.delta;
  },
  thinking: (chunk) => {
    speech(elementFor("thinking", chunk, () => collapsible("thinking", "Thinking")).lastElementChild).textContent += chunk.content;
  },
  tool_start: (chunk) => {
    tool(chunk).querySelector("pre").replaceChildren(json(chunk.arguments));
  },
  tool_approval_request: (chunk) => {
    tool(chunk).querySelector("pre").replaceChildren(json(chunk.input));
  },
  tool_approval_response: (chunk) => {
    const card = ofCall(".question", chunk);
    if (card) closeQuestion(card, decision(chunk), true);
    else show("note", ...decision(chunk));
  },
  tool_end: (chunk) => showToolEnd(chunk, "done", chunk.result),
  tool_error: (chunk) => showToolEnd(chunk, "failed", chunk.error),
  tool_input_error: (chunk) => showToolEnd(chunk, "not run", chunk.error),
  tool_output_error: (chunk) => showToolEnd(chunk, "failed", chunk.error),
  output: (chunk) => append(element("pre", "output", result(chunk.output))),
  error: (chunk) => show(chunk.recoverable ? "note" : "error", visible(chunk.error, "\n")),
  run_interrupted: (chunk) => show("note", "Stopped. ", visible(chunk.reason ?? "")),
  step_discarded: discard,
  stream_resync: (chunk) => {
    // Steps that are shown here may be gone.
    if (chunk.reason?.includes("rewound")) location.reload();
    else discard(chunk);
  },
};

/** Removes the elements of a step whose attempt was discarded. */
function discard(chunk) {
  for (const made of log.querySelectorAll(`[data-step="${CSS.escape(`${chunk.runId} ${chunk.step}`)}"]`)) made.remove();
}

// --- reading the stream of a run

function setBusy(is) {
  // Before the server has answered there is nothing to stop, and no session for another message.
  text.disabled = send.disabled = is && !session;
  stop.hidden = !is || !session;
  if (!is) setStopping(false);
  state.textContent = is ? "Working…" : "";
  if (!is) text.focus();
}

/** Shows that the run was asked to stop and has not ended yet. */
function setStopping(is) {
  stop.disabled = is;
  stop.textContent = is ? "Stopping…" : "Stop";
}

function follow() {
  source?.close();
  clearTimeout(pollTimer);
  following = true;
  setBusy(true);
  const query = new URLSearchParams({ sessionId: session, fromSequence: cursor });
  // The browser reopens a dropped connection, and continues after the last chunk it received.
  source = new EventSource(`sse?${query}`);
  source.onopen = () => setBusy(true);
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
      state.textContent = "The connection was lost; reconnecting…";
      return;
    }
    following = false;
    setBusy(false);
    show("error", "This session cannot be read. Start a new chat.");
  };
}

async function ended(end) {
  setBusy(false);
  const told = log.lastElementChild?.className === "error";
  if (end.status === "failed" && !told) show("error", visible(end.error?.message ?? "The run failed.", "\n"));
  if (!end.suspended) {
    for (const card of log.querySelectorAll(".card")) closeQuestion(card, ["No longer pending."]);
    return;
  }
  state.textContent = "Waiting for you.";
  const now = await statusOf(session);
  paused = now.runId;
  await showPending(now);
}

/** Shows the pending calls, and closes questions that were answered elsewhere. */
async function showPending(now) {
  const open = new Set(now.pending.map(callKey));
  for (const card of log.querySelectorAll(".card")) {
    if (open.has(card.dataset.call)) continue;
    const answer = now.answered?.find((one) => callKey(one) === card.dataset.call);
    closeQuestion(card, answer ? decision(answer) : ["Answered elsewhere."]);
  }
  for (const call of now.pending) {
    const about = await descriptionOf(call);
    if (!ofCall(".card", call)) append(question(call, about));
  }
  if (open.size) return schedulePoll();
  // All calls are answered: resume the run, unless somebody has already done so or it has ended.
  return now.runStatus?.startsWith("suspended") ? resume() : follow();
}

function schedulePoll() {
  clearTimeout(pollTimer);
  pollTimer = setTimeout(() => attempt(poll), POLL_INTERVAL);
}

/** Checks whether a call was answered elsewhere. */
async function poll() {
  // If the server cannot be reached the question stays open.
  const now = await statusOf(session).catch(() => null);
  if (following) return;
  if (!now) return schedulePoll();
  await (now.runId === paused ? showPending(now) : follow());
}

/** Resumes the session after the last answer. Another client may have resumed it first. */
async function resume() {
  try {
    await request("resume", { sessionId: session });
  } catch (error) {
    if (!["ALREADY_RUNNING", "ALREADY_COMPLETED"].includes(error.code)) throw error;
  }
  follow();
}

// --- pending calls

/** The description of the tool of a call. It comes from the configuration, never from the model. */
async function descriptionOf(call) {
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
  if (call.deadline) countDown(made.appendChild(element("p", "deadline")), call.deadline);
  const fields = !isApproval && Array.isArray(call.input?.fields) ? call.input.fields.map(String) : [];
  const inputs = (fields.length ? fields : [isApproval ? "Reason for a denial" : "Result, as JSON or text"]).map((name) => {
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
    button("Failed", () => ({ error: inputs.map((one) => one.value).join(" ") || "the user could not do it" }));
  }
  made.onsubmit = (event) => event.preventDefault();
  return made;
}

/** Shows how much time is left for an answer. An answer after the deadline is not used as the result. */
function countDown(place, deadline) {
  const tick = () => {
    if (!place.isConnected && place.dataset.shown) return;
    place.dataset.shown = "yes";
    const seconds = Math.ceil((deadline - Date.now()) / 1000);
    if (seconds <= 0) {
      place.textContent = "The deadline has passed.";
      return;
    }
    const two = (number) => String(number).padStart(2, "0");
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    place.textContent = `${hours ? `${hours}:` : ""}${two(minutes)}:${two(seconds % 60)} left to answer`;
    setTimeout(tick, COUNTDOWN_INTERVAL);
  };
  // The first time is shown when the question is in the log.
  setTimeout(tick);
}

/** The text of a decision, with the name of who made it if that is known. */
function decision({ approved, reason, decidedBy }) {
  const word = approved === undefined ? "Answered" : approved ? "Approved" : "Denied";
  const who = decidedBy ? [" by ", visible(decidedBy)] : [];
  return [word, ...who, ...(reason ? [": ", visible(reason)] : ["."])];
}

/** Closes a question: removes its inputs and shows its outcome. A final outcome is not replaced. */
function closeQuestion(card, what, isFinal = false) {
  if (card.classList.replace("card", "decided")) {
    for (const one of card.querySelectorAll("button, label, .deadline")) one.remove();
    card.appendChild(element("p", "outcome")).append(element("span", "late"), element("span", "what"));
  }
  if (card.dataset.final) return;
  if (isFinal) card.dataset.final = "yes";
  card.querySelector(".what").replaceChildren(...what);
}

/** Shows that an answer came too late. The earlier decision is read from the stream or the status. */
function showTooLate(card, status) {
  if (card.classList.contains("card")) closeQuestion(card, ["No longer pending."]);
  const isTold = status === "late_answer_after_timeout";
  card.querySelector(".late").textContent = isTold
    ? "Your answer came after the deadline. It was not used, and the agent is told about it. "
    : "Your answer came too late and was not used. ";
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
    const { status, continuation } = await request("submit-tool-result", body);
    if (status !== "accepted") return showTooLate(made, status);
    closeQuestion(made, decision(answer));
    if (continuation === "caller_resumes") return await resume();
    if (continuation !== "none" || !log.querySelector(".card")) follow();
  } catch (error) {
    if (error.message.includes("unknown_tool_call")) return showTooLate(made);
    for (const one of buttons) one.disabled = false;
    throw error;
  }
}

// --- actions of the user

form.onsubmit = (event) => {
  event.preventDefault();
  const message = text.value.trim();
  if (!message || send.disabled) return;
  setBusy(true);
  attempt(async () => {
    if (session) {
      // While a run is in progress, the server's rule for double texting decides.
      await request("resume", { sessionId: session, mode: "with_message", message, abandonPending: true });
    } else {
      const started = await request("start", { agentType: agent.value, message });
      session = started.sessionId;
      history.replaceState(null, "", `#${encodeURIComponent(session)}`);
      agent.disabled = true;
    }
    text.value = "";
    follow();
    return true;
  }).then((started) => started || setBusy(false));
};

stop.onclick = async () => {
  setStopping(true);
  const answer = await attempt(() => request("interrupt", { sessionId: session }));
  if (!answer?.accepted) setStopping(false);
};

byId("new-chat").onclick = () => {
  location.hash = "";
  location.reload();
};

window.onhashchange = () => {
  if (sessionInAddress() !== session) location.reload();
};

attempt(async () => {
  const { agents, defaultAgentType } = await request("agents");
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
  await Promise.all([loadUserMessages(), loadRuns()]);
  follow();
});
