#!/usr/bin/env node
// HELIX_BIN=.. node run.mjs [--page studio,example] [--only a,b]
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { Helix } from './lib/helix.mjs';
import { pages } from './lib/pages.mjs';
import { sleep, tests, until } from './tests.mjs';

const argument = (name) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? undefined : process.argv[at + 1]?.split(',');
};
const only = argument('only');
const timeout = 90_000;
const screenshots = process.env.HELIX_SCREENSHOTS ?? (await mkdtemp(join(tmpdir(), 'helix-screenshots-')));
await mkdir(screenshots, { recursive: true });
console.log(`# screenshots in ${screenshots}`);

const browser = await chromium.launch({
  executablePath: process.env.HELIX_CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'],
});

/** Plays a test with a server and a browser profile of its own. */
async function play(name, test, run) {
  const driver = pages[name];
  const helix = await Helix.start();
  const site = await driver.serve(helix).catch(async (error) => (await helix.stop(), Promise.reject(error)));
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  context.setDefaultTimeout(15_000);
  const wrong = [];
  const watch = (page) => {
    page.on('pageerror', (error) => wrong.push(error.message));
    page.on('console', (said) => /Content Security Policy|Maximum update depth|same key/.test(said.text()) && wrong.push(said.text()));
    return page;
  };
  const t = { driver, helix, url: site.url, page: watch(await context.newPage()) };
  t.screenshot = (what, page = t.page) => page.screenshot({ path: join(screenshots, `${name}-${test}-${what}.png`) });
  /** A second tab at an address, by default at that of the first one. */
  t.tab = async (path) => {
    const tab = watch(await context.newPage());
    await tab.goto(path ? site.url + path : t.page.url());
    return tab;
  };
  /** Waits until the page knows that the server is back. */
  t.connected = () => until('the connection', async () => (await t.page.locator('[data-testid="connection-bar"]').count()) === 0);
  try {
    await driver.open(t.page, site.url);
    const late = sleep(timeout).then(() => Promise.reject(new Error(`no end after ${timeout} ms`)));
    late.catch(() => {});
    await Promise.race([run(t), late]);
    if (wrong.length) throw new Error(`errors in the page: ${wrong.join('; ')}`);
  } catch (error) {
    await t.screenshot('FAILED').catch(() => {});
    const shown = await t.page.locator('body').innerText({ timeout: 1000 }).catch(() => '');
    const more = [`the page shows: ${shown.replace(/\s+/g, ' ').slice(0, 600)}`, await helix.lastLog(5)];
    if (wrong.length) more.push(`errors in the page: ${wrong.join('; ').slice(0, 600)}`);
    throw Object.assign(error, { more: more.join('\n') });
  } finally {
    await context.close();
    await site.stop();
    await helix.stop();
  }
}

let passed = 0;
let failed = 0;
async function playAll(name) {
  for (const [test, run] of Object.entries(tests[name])) {
    if (only && !only.includes(test)) continue;
    const begun = Date.now();
    try {
      await play(name, test, run);
      passed += 1;
      console.log(`PASS ${name}/${test} (${Date.now() - begun} ms)`);
    } catch (error) {
      failed += 1;
      const why = String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 400);
      console.log(`FAIL ${name}/${test}: ${why}${error?.more ? `\n${error.more}`.replaceAll('\n', '\n  ') : ''}`);
    }
  }
}
await Promise.all((argument('page') ?? Object.keys(tests)).map(playAll));
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
