#!/usr/bin/env node
// BASE_URL=http://127.0.0.1:8787 node run.mjs [--layout stock|single|nested|agent] [--sdk v6,v7] [--only a,b] [--skip a,b] [--allow-extra-fields] [--quiet]
import { loadSdk, layoutFor, makeChatFactory } from './lib/client.mjs';
import { rest } from './lib/rest.mjs';
import { tests } from './lib/tests.mjs';
// What looks at the whole run comes last.
const { 'wire-compat': wireCompat, ...first } = tests, all = { ...first, ...rest, 'wire-compat': wireCompat };
const arg = (k, d) => { const i = process.argv.indexOf('--' + k); return i < 0 ? d : process.argv[i + 1]; };
const flag = k => process.argv.includes('--' + k);
process.on('unhandledRejection', () => {});
const base = (process.env.BASE_URL ?? 'http://127.0.0.1:8787').replace(/\/+$/, '');
const only = arg('only')?.split(','), skip = arg('skip')?.split(',') ?? [];
const headers = process.env.HEADERS ? JSON.parse(process.env.HEADERS) : {};
const layoutName = arg('layout', process.env.LAYOUT ?? 'stock');
const sdks = arg('sdk', 'v6,v7').split(',');
const timeout = Number(arg('timeout', 20000));
// Several of these may run against one server at a time.
let passed = 0, failed = 0, seq = 0; const run = `${Date.now().toString(36)}-${process.pid}`;
for (const name of sdks) {
  const sdk = await loadSdk(name);
  if (!flag('quiet')) console.log(`# ai ${sdk.version}, layout ${layoutName}, ${base}`);
  const layout = layoutFor(layoutName, base);
  const factory = makeChatFactory(sdk, layout, headers);
  for (const [test, fn] of Object.entries(all)) {
    if ((only && !only.includes(test)) || skip.includes(test)) continue;
    const t = { sdk, layout, headers, opts: { only, allowExtra: flag('allow-extra-fields'), noIds: flag('no-sse-ids') }, id: () => `h-${name}-${run}-${++seq}` };
    t.chat = Object.assign((id, o) => factory(id ?? t.id(), o), { all: factory.all });
    let timer; const lim = new Promise((_, rej) => { timer = setTimeout(() => rej(new Error(`no end after ${timeout} ms`)), timeout); });
    try { await Promise.race([fn(t), lim]); passed++; console.log(`PASS ${name}/${test}`); }
    catch (e) { failed++; console.log(`FAIL ${name}/${test}: ${String(e?.message ?? e).replace(/\s+/g, ' ').slice(0, 300)}`); if (flag('trace')) console.log(e?.stack); }
    clearTimeout(timer);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
