// The rows of the scenario table and the duties that tests.mjs leaves out. Each is (t) => Promise, as there.
import { check, eq, isTool, settle, sleep, sseParser, textOf, toolName, toolsOf, waitFor, words } from './client.mjs';
import { dump, ok, onlyTool, oneTurn, posts, roles, say, snapshot, uniqueIds, untilText } from './tests.mjs';

const tool = (m, name, at = 0) => {
  const found = toolsOf(m).filter(p => toolName(p) === name)[at];
  check(found, `no part of ${name} in ${JSON.stringify(m?.parts)}`);
  return found;
};
const color = (c, p, name) => c.addToolOutput({ tool: 'pick_color', toolCallId: p.toolCallId, output: { color: name } });
const decide = (c, p, approved, reason) => c.addToolApprovalResponse({ id: p.approval.id, approved, ...(reason ? { reason } : {}) });
const goesOn = async (c, n = 2) => { await waitFor(() => c.rec.posts.length >= n, 'the automatic POST'); await settle(c); };
const post = (t, path, body) => fetch(path, { method: 'POST', headers: { 'content-type': 'application/json', ...t.headers }, body: JSON.stringify(body) });
const submit = (t, id, body) => post(t, t.layout.snapshot(id).replace(/snapshot$/, 'submit-tool-result'), body);
const ended = (t, id, status = 'ended') => waitFor(async () => { const s = await snapshot(t, id); return s.status === status && s; }, `snapshot status ${status}`);
const chunksOf = c => c.rec.requests.flatMap(r => r.events).map(e => e.chunk).filter(Boolean);
/** A page that is loaded now: the snapshot, and then the reconnect. */
const reload = async (t, id) => { const s = await snapshot(t, id); const c = t.chat(id, { messages: s.messages }); await c.resumeStream(); return { c, s }; };
/** What a message says: its id, its texts and its calls. Data parts and empty steps need not be in a snapshot. */
const essence = m => ({
  id: m.id, role: m.role,
  parts: m.parts.filter(p => !p.type.startsWith('data-')).filter((p, i, all) => p.type !== 'step-start' || all[i + 1]?.type !== 'step-start').map(p => {
    if (isTool(p)) return { type: p.type, name: toolName(p), id: p.toolCallId, state: p.state, input: p.input, output: p.output, errorText: p.errorText, server: p.providerExecuted === true };
    if (p.type === 'text' || p.type === 'reasoning') return { type: p.type, text: p.text, state: p.state };
    return { type: p.type };
  }),
});

/** Plays a scenario to its end, whatever it asks. */
async function play(t, text) {
  const c = t.chat();
  await say(c, text);
  const open = () => toolsOf(c.messages.at(-1)).filter(p => p.state === 'approval-requested' || p.state === 'input-available');
  for (const p of open()) await (p.state === 'approval-requested' ? decide(c, p, true) : color(c, p, 'teal'));
  await settle(c);
  return c;
}

export const rest = {
  async 'client-tool-two'(t) {
    const c = t.chat(); await say(c, 'scenario:client-tool-two'); ok(c); oneTurn(c); posts(c, 1);
    const [first, second] = [tool(c.messages[1], 'pick_color', 0), tool(c.messages[1], 'pick_color', 1)];
    eq([first.input, second.input], [{ prompt: 'First' }, { prompt: 'Second' }], 'inputs'); check(first.toolCallId !== second.toolCallId, 'both calls have one id');
    await color(c, second, 'blue'); await settle(c, { quiet: 300 }); posts(c, 1);
    await color(c, first, 'red'); await goesOn(c); ok(c); oneTurn(c); posts(c, 2);
    eq(textOf(c.messages[1]), 'You picked red and blue.', 'text');
    eq(toolsOf(c.messages[1]).map(p => p.output), [{ color: 'red' }, { color: 'blue' }], 'outputs');
  },
  async 'client-tool-two-answered-in-two-places'(t) { // the first one by the route, the other one in the page
    const c = t.chat(); await say(c, 'scenario:client-tool-two');
    const [first, second] = [tool(c.messages[1], 'pick_color', 0), tool(c.messages[1], 'pick_color', 1)];
    const r = await submit(t, c.id, { kind: 'client-tool-result', toolCallId: first.toolCallId, result: { color: 'red' } }); check(r.ok, `submit answered ${r.status}`);
    const { c: b } = await reload(t, c.id); await settle(b); ok(b);
    eq(toolsOf(b.messages[1]).map(p => p.state), ['output-available', 'input-available'], 'states of the calls');
    await color(b, second, 'blue'); await goesOn(b, 1); ok(b); oneTurn(b); eq(textOf(b.messages[1]), 'You picked red and blue.', 'text');
  },
  async 'client-tool-slow'(t) { // the continuation is cut, and the page comes back
    const c = t.chat(); await say(c, 'scenario:client-tool-slow n=40 ms=25'); const p = onlyTool(c.messages[1], 'pick_color');
    c.rec.cutNext({ events: 12 }); await color(c, p, 'teal'); await waitFor(() => c.rec.posts.length >= 2 && c.status === 'error', 'the cut');
    await c.resumeStream(); await settle(c); ok(c); oneTurn(c); eq(textOf(c.messages[1]), words(40), 'text'); onlyTool(c.messages[1], 'pick_color'); posts(c, 2);
  },
  async 'client-tool-slow-reload'(t) { // reloaded while the continuation goes on: one bubble over both runs
    const c = t.chat(); await say(c, 'scenario:client-tool-slow n=40 ms=25'); const p = onlyTool(c.messages[1], 'pick_color');
    c.rec.cutNext({ events: 12 }); await color(c, p, 'teal'); await waitFor(() => c.rec.posts.length >= 2 && c.status === 'error', 'the cut');
    const { c: b, s } = await reload(t, c.id); eq(s.status, 'active', 'snapshot status'); eq(s.messages.length, 1, 'messages in the snapshot');
    await settle(b); ok(b); oneTurn(b); eq(b.messages[1].id, c.messages[1].id, 'assistant id'); eq(onlyTool(b.messages[1], 'pick_color').state, 'output-available', 'tool state'); eq(textOf(b.messages[1]), words(40), 'text'); posts(b, 0);
  },
  async 'approval-slow'(t) {
    const c = t.chat(); await say(c, 'scenario:approval-slow ms=400'); const p = onlyTool(c.messages[1], 'delete_file'); eq(p.input, { path: '/tmp/x' }, 'input');
    const begun = Date.now(); await decide(c, p, true); await goesOn(c); ok(c); oneTurn(c); posts(c, 2); check(Date.now() - begun >= 400, 'the tool took no time');
    eq(onlyTool(c.messages[1], 'delete_file').output, { deleted: true }, 'output'); eq(textOf(c.messages[1]), 'Deleted /tmp/x.', 'text');
  },
  async 'refresh-answered-approval'(t) { // reloaded while the approved tool runs: nothing asks again
    const c = t.chat(); await say(c, 'scenario:approval-slow ms=900'); await decide(c, onlyTool(c.messages[1], 'delete_file'), true); await waitFor(() => c.rec.posts.length >= 2, 'the automatic POST'); await sleep(200);
    const { c: b } = await reload(t, c.id); await settle(b, { quiet: 300 }); ok(b); oneTurn(b); posts(b, 0);
    check(!chunksOf(b).some(k => k.type === 'tool-approval-request'), 'the replay asks again');
    eq(onlyTool(b.messages[1], 'delete_file').state, 'output-available', 'tool state'); eq(textOf(b.messages[1]), 'Deleted /tmp/x.', 'text'); await settle(c);
  },
  async 'mixed-client-first'(t) {
    const c = t.chat(); await say(c, 'scenario:mixed'); ok(c); posts(c, 1);
    eq(toolsOf(c.messages[1]).map(p => [toolName(p), p.state]), [['pick_color', 'input-available'], ['delete_file', 'approval-requested']], 'calls');
    check(!tool(c.messages[1], 'delete_file').providerExecuted, 'an approval-gated tool is providerExecuted before it ran');
    await color(c, tool(c.messages[1], 'pick_color'), 'teal'); await settle(c, { quiet: 300 }); posts(c, 1);
    await decide(c, tool(c.messages[1], 'delete_file'), true); await goesOn(c); ok(c); oneTurn(c); posts(c, 2);
    eq(textOf(c.messages[1]), 'You picked teal. Deleted /tmp/x.', 'text'); eq(toolsOf(c.messages[1]).map(p => p.output), [{ color: 'teal' }, { deleted: true }], 'outputs');
    check(tool(c.messages[1], 'delete_file').providerExecuted === true, 'a tool that the server ran is not providerExecuted');
  },
  async 'mixed-denied-first'(t) {
    const c = t.chat(); await say(c, 'scenario:mixed');
    await decide(c, tool(c.messages[1], 'delete_file'), false, 'no'); await settle(c, { quiet: 300 }); posts(c, 1);
    await color(c, tool(c.messages[1], 'pick_color'), 'teal'); await goesOn(c); ok(c); oneTurn(c); posts(c, 2);
    eq(textOf(c.messages[1]), 'You picked teal. Not deleted.', 'text'); check(['output-denied', 'output-error'].includes(tool(c.messages[1], 'delete_file').state), 'the denial is not seen');
  },
  async 'mixed-in-two-places'(t) { // approved by the route; the page that waits gives the color
    const c = t.chat(); await say(c, 'scenario:mixed'); const p = tool(c.messages[1], 'delete_file');
    const r = await submit(t, c.id, { kind: 'approval-response', toolCallId: p.toolCallId, approvalId: p.approval.id, approved: true }); check(r.ok, `submit answered ${r.status}`);
    const { c: b } = await reload(t, c.id); await settle(b); ok(b); check(tool(b.messages[1], 'delete_file').state !== 'approval-requested', 'the replay asks again');
    await color(b, tool(b.messages[1], 'pick_color'), 'teal'); await goesOn(b, 1); ok(b); oneTurn(b); eq(textOf(b.messages[1]), 'You picked teal. Deleted /tmp/x.', 'text');
  },
  async 'mixed-denied-in-another-place'(t) {
    const c = t.chat(); await say(c, 'scenario:mixed'); const p = tool(c.messages[1], 'delete_file');
    const r = await submit(t, c.id, { kind: 'approval-response', toolCallId: p.toolCallId, approvalId: p.approval.id, approved: false, reason: 'no' }); check(r.ok, `submit answered ${r.status}`);
    await c.resumeStream(); await settle(c); ok(c); eq(tool(c.messages[1], 'delete_file').state, 'output-denied', 'state of the denied call');
    await color(c, tool(c.messages[1], 'pick_color'), 'teal'); await goesOn(c); ok(c); oneTurn(c); eq(textOf(c.messages[1]), 'You picked teal. Not deleted.', 'text');
  },
  async 'answered-elsewhere'(t) { // the page that waited resumes its stream
    const c = t.chat(); await say(c, 'scenario:client-tool'); const p = onlyTool(c.messages[1], 'pick_color');
    const r = await submit(t, c.id, { kind: 'client-tool-result', toolCallId: p.toolCallId, result: { color: 'teal' } }); check(r.ok, `submit answered ${r.status}`); eq((await r.json()).status, 'accepted', 'status of the answer');
    await c.resumeStream(); await settle(c); ok(c); oneTurn(c); eq(textOf(c.messages[1]), 'You picked teal.', 'text'); posts(c, 1); await ended(t, c.id);
  },
  async 'same-answer-twice'(t) { // two tabs answer the same call
    const a = t.chat(); await say(a, 'scenario:client-tool'); const b = t.chat(a.id, { messages: structuredClone(a.messages) }); const p = onlyTool(a.messages[1], 'pick_color');
    await color(a, p, 'teal'); await goesOn(a); ok(a);
    await color(b, p, 'teal'); await goesOn(b, 1); await settle(b, { quiet: 400 }); posts(b, 1);
    const s = await ended(t, a.id); eq(s.messages.length, 2, 'messages in the session'); eq(textOf(s.messages[1]), 'You picked teal.', 'text in the session');
  },
  async 'repeated-post'(t) { // a POST is sent again whose answer got lost: the turn is not played twice
    const c = t.chat(); c.rec.cutNext({ events: 3 }); await c.sendMessage({ text: 'scenario:slow n=20 ms=25' }); const body = c.rec.posts[0].body;
    const r = await post(t, t.layout.api(c.id), body); eq(r.status, 200, 'status of the repeated POST'); const ev = []; const parse = sseParser(e => ev.push(e)); for await (const b of r.body) parse(b);
    check(ev.at(-1).done, 'the repeated POST does not end'); const s = await ended(t, c.id); eq(s.messages.map(m => m.role), ['user', 'assistant'], 'roles in the session'); eq(textOf(s.messages[1]), words(20), 'text in the session');
  },
  async 'supersede'(t) { // a new message in another tab while a run goes on
    const a = t.chat(); const run = a.sendMessage({ text: 'scenario:slow n=200 ms=25' }); await untilText(a, 'w5');
    const s = await snapshot(t, a.id); const b = t.chat(a.id, { messages: s.messages }); await say(b, 'scenario:text'); ok(b); eq(textOf(b.messages.at(-1)), 'Echo: hello world', 'text of the new turn');
    await run; await settle(a); check(!textOf(a.messages[1]).includes('w199'), 'the superseded run went on');
    const z = await ended(t, a.id); eq(textOf(z.messages.at(-1)), 'Echo: hello world', 'last text in the session'); eq(z.messages.filter(m => m.role === 'user').length, 2, 'messages of the user in the session');
  },
  async 'abandon-pending'(t) {
    const c = t.chat(); await say(c, 'scenario:mixed'); await say(c, 'scenario:count'); ok(c); eq(textOf(c.messages.at(-1)), 'turn 2', 'text');
    const s = await ended(t, c.id); eq(s.messages.map(m => m.role), ['user', 'assistant', 'user', 'assistant'], 'roles'); eq(toolsOf(s.messages[1]).map(p => p.state), ['output-error', 'output-error'], 'states of the abandoned calls'); eq(s.pending ?? [], [], 'pending calls');
  },
  async 'edit'(t) { // the first message is written again: everything after it goes
    const c = t.chat(); await say(c, 'scenario:count'); await say(c, 'scenario:count'); eq(textOf(c.messages.at(-1)), 'turn 2', 'second text');
    await c.sendMessage({ text: 'scenario:count', messageId: c.messages[0].id }); await settle(c); ok(c); oneTurn(c); eq(textOf(c.messages[1]), 'turn 1', 'text after the edit');
    const s = await ended(t, c.id); eq(s.messages.map(m => m.id), c.messages.map(m => m.id), 'ids in the session');
  },
  async 'regenerate-earlier'(t) { // an answer in the middle is made again
    const c = t.chat(); await say(c, 'scenario:count'); await say(c, 'scenario:count');
    await c.regenerate({ messageId: c.messages[1].id }); await settle(c); ok(c); oneTurn(c); eq(textOf(c.messages[1]), 'turn 1', 'text');
    const s = await ended(t, c.id); eq(s.messages.map(m => m.id), c.messages.map(m => m.id), 'ids in the session');
  },
  async 'state-goes-back'(t) { // an edit takes back what the turn did to the state
    const c = t.chat(); await say(c, 'scenario:state-patch'); await c.sendMessage({ text: 'scenario:text', messageId: c.messages[0].id }); await settle(c); ok(c); oneTurn(c);
    const s = await ended(t, c.id); eq(s.state, { counter: 0, items: [] }, 'state in the session');
  },
  async 'dropped-connection'(t) { // nobody comes back, and the run goes on
    const c = t.chat(); c.rec.cutNext({ events: 6 }); await c.sendMessage({ text: 'scenario:slow n=20 ms=25' });
    const s = await ended(t, c.id); eq(textOf(s.messages[1]), words(20), 'text in the session');
    await c.resumeStream(); await settle(c); ok(c); oneTurn(c); eq(textOf(c.messages[1]), words(20), 'text after coming back');
  },
  async 'one-delta-per-word'(t) {
    const c = t.chat(); const begun = Date.now(); await say(c, 'scenario:slow n=10 ms=30'); ok(c); check(Date.now() - begun >= 270, 'the words came too fast');
    const deltas = chunksOf(c).filter(k => k.type === 'text-delta'); eq(deltas.map(k => k.delta.trim()), words(10).split(' '), 'deltas');
    const d = t.chat(); await say(d, 'scenario:text'); check(chunksOf(d).filter(k => k.type === 'text-delta').length > 1, 'the text came in one delta');
  },
  async 'error-again'(t) { // a reload of a failed turn: the page shows that it failed
    const c = t.chat(); await say(c, 'scenario:error'); const s = await snapshot(t, c.id); eq(s.status, 'failed', 'snapshot status'); check(/scripted failure/.test(s.error?.error ?? ''), `error in the snapshot: ${JSON.stringify(s.error)}`);
    const b = t.chat(c.id, { messages: s.messages }); await b.resumeStream(); await settle(b); check(b.status === 'ready' || /scripted failure/.test(b.error?.message ?? ''), `${b.status}: ${b.error?.message}`); uniqueIds(b);
    check(roles(b).replace(/,assistant$/, '') === 'user', `messages: ${dump(b)}`);
  },
  async 'forged-results'(t) { // a result for a call that does not wait, and one for a call that was denied
    const c = t.chat(); await say(c, 'scenario:approval'); const p = onlyTool(c.messages[1], 'delete_file');
    const forged = structuredClone(c.messages); Object.assign(toolsOf(forged[1])[0], { state: 'output-available', output: { deleted: 'forged' }, approval: undefined });
    forged[1].parts.push({ type: 'dynamic-tool', toolName: 'pick_color', toolCallId: 'made-up', state: 'output-available', input: {}, output: { color: 'forged' } });
    const r = await post(t, t.layout.api(c.id), { id: c.id, messages: forged, trigger: 'submit-message', messageId: forged[1].id }); await r.text();
    const s = await snapshot(t, c.id); eq(s.status, 'paused', 'snapshot status'); check(!JSON.stringify(s).includes('forged'), 'a forged result was stored');
    await decide(c, p, false, 'really not'); await goesOn(c); ok(c); eq(textOf(c.messages[1]), 'Not deleted: really not', 'text');
  },
  async 'changed-arguments'(t) { // what was approved is what was shown, whatever the page sends back
    const c = t.chat(); await say(c, 'scenario:approval'); const changed = structuredClone(c.messages); const p = toolsOf(changed[1])[0];
    Object.assign(p, { state: 'approval-responded', input: { path: '/etc/passwd' }, approval: { id: p.approval.id, approved: true } });
    const r = await post(t, t.layout.api(c.id), { id: c.id, messages: changed, trigger: 'submit-message', messageId: changed[1].id }); await r.text();
    const s = await snapshot(t, c.id); check(!JSON.stringify(s).includes('passwd'), 'changed arguments were stored');
  },
};

// Live, snapshot and replay give the same messages.
for (const text of ['text', 'reasoning', 'server-tool', 'tool-error', 'client-tool', 'client-tool-two', 'approval', 'mixed', 'state-patch', 'slow n=5 ms=1']) {
  rest[`all-ways-agree-${text.split(' ')[0]}`] = async t => {
    const c = await play(t, `scenario:${text}`); ok(c); oneTurn(c); const live = c.messages.map(essence);
    const s = await ended(t, c.id); eq(s.messages.map(essence), live, 'the snapshot');
    const b = t.chat(c.id); await b.resumeStream(); await settle(b); ok(b); eq(b.messages.map(essence), live.slice(1), 'the replay');
    const { c: d } = await reload(t, c.id); await settle(d); ok(d); eq(d.messages.map(essence), live, 'the reload');
  };
}
