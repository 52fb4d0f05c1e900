// What the pages must do. Each test is (t) => Promise; t gives a page, its driver, and the server behind it.
import { words } from './lib/pages.mjs';

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const check = (condition, why) => {
  if (!condition) throw new Error(why);
};
const all = (n) => Array.from({ length: n }, (_, at) => `w${at}`);

export async function until(what, condition, ms = 15000) {
  const end = Date.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out waiting for ${what}`);
    await sleep(25);
  }
}

/** Waits until the last answer contains a text. */
const says = (t, text, page = t.page, ms) =>
  until(`"${text}" on the page`, async () => ((await t.driver.answers(page).last().textContent({ timeout: 500 }).catch(() => '')) ?? '').includes(text), ms);
const shows = (what, locator, ms) => until(what, () => locator.first().isVisible(), ms);
const hides = (what, locator, ms) => until(`the end of ${what}`, async () => (await locator.count()) === 0, ms);

/** Waits until a word is there, and fails when words come twice or out of order. */
async function reads(t, word, ms) {
  await until(`${word} on the page`, async () => (await words(t.page, t.driver)).includes(word), ms);
}
async function saysEachOnce(t, n, ms = 20000) {
  await reads(t, `w${n - 1}`, ms);
  await sleep(600);
  const got = await words(t.page, t.driver);
  check(got.join(' ') === all(n).join(' '), `the page shows ${got.length} words: ${got.join(' ')}`);
}
async function oneTurn(t, page = t.page) {
  const [users, answers] = [await t.driver.users(page).count(), await t.driver.answers(page).count()];
  check(users === 1 && answers === 1, `the page shows ${users} messages of the user and ${answers} answers`);
}
const ids = async (t) => `/sessions/${encodeURIComponent(await t.helix.session())}/messages`;
const results = async (t) => (await t.helix.get(await ids(t))).messages.filter((one) => one.role === 'tool');

const both = {
  async send(t) {
    await t.driver.send(t.page, 'scenario:text');
    await says(t, 'Echo: hello world');
    await t.driver.send(t.page, 'scenario:count');
    await says(t, 'turn 2');
    const [users, answers] = [await t.driver.users(t.page).count(), await t.driver.answers(t.page).count()];
    check(users === 2 && answers === 2, `the page shows ${users} messages of the user and ${answers} answers`);
    await t.screenshot('answered');
  },
  async tool(t) {
    await t.driver.send(t.page, 'scenario:server-tool');
    await says(t, 'It is 21 degrees in Paris.');
    check((await t.driver.toolCards(t.page).count()) === 1, 'there is no card of the tool');
    await oneTurn(t);
  },
  async stream(t) {
    await t.driver.send(t.page, 'scenario:slow n=30 ms=50');
    await reads(t, 'w3');
    const early = await words(t.page, t.driver);
    check(!early.includes('w29'), 'the text came all at once');
    await t.screenshot('streaming');
    await saysEachOnce(t, 30);
    await oneTurn(t);
  },
  async 'reload-mid-stream'(t) {
    await t.driver.send(t.page, 'scenario:slow n=60 ms=60');
    await reads(t, 'w5');
    await t.page.reload();
    await reads(t, 'w12');
    check(!(await words(t.page, t.driver)).includes('w59'), 'the reload came too late to test anything');
    await t.page.reload();
    await saysEachOnce(t, 60);
    await oneTurn(t);
    await t.page.reload();
    await saysEachOnce(t, 60);
    await oneTurn(t);
  },
  async 'approve-after-a-kill'(t) {
    await t.driver.send(t.page, 'scenario:approval');
    await shows('the question', t.driver.approvals(t.page));
    await t.screenshot('asked');
    await t.helix.kill();
    await sleep(1500);
    await t.screenshot('server-gone');
    await t.helix.restart();
    await t.connected();
    await t.driver.approve(t.page);
    await says(t, 'Deleted /tmp/x.');
    await oneTurn(t);
    await hides('the question', t.driver.approvals(t.page));
    check((await results(t)).length === 1, 'the tool has not run once');
    await t.screenshot('approved');
  },
  async 'approve-after-a-kill-and-a-reload'(t) {
    await t.driver.send(t.page, 'scenario:approval');
    await shows('the question', t.driver.approvals(t.page));
    await t.helix.kill();
    await t.helix.restart();
    await t.page.reload();
    await shows('the question', t.driver.approvals(t.page));
    await t.driver.approve(t.page);
    await says(t, 'Deleted /tmp/x.');
    await oneTurn(t);
  },
  async 'killed-mid-stream'(t) {
    await t.driver.send(t.page, 'scenario:slow n=40 ms=60');
    await reads(t, 'w5');
    await t.helix.kill();
    await sleep(500);
    await t.helix.restart();
    if (t.driver.comesBack) await t.connected();
    else await t.page.reload();
    await saysEachOnce(t, 40, 30000);
    await oneTurn(t);
  },
  async 'client-tool'(t) {
    await t.driver.send(t.page, 'scenario:client-tool');
    await shows('the form', t.driver.forms(t.page));
    await t.screenshot('form');
    await t.driver.answerForm(t.page, 'teal');
    await says(t, 'You picked teal.');
    await oneTurn(t);
  },
  async 'client-tool-in-a-second-tab'(t) {
    await t.driver.send(t.page, 'scenario:client-tool');
    await shows('the form', t.driver.forms(t.page));
    const second = await t.tab();
    await shows('the form in the second tab', t.driver.forms(second));
    await t.driver.answerForm(second, 'teal');
    await says(t, 'You picked teal.', second);
    // The first tab learns of it by itself.
    await says(t, 'You picked teal.', t.page);
    for (const page of [t.page, second]) {
      await oneTurn(t, page);
      await hides('the form', t.driver.forms(page));
    }
    check((await results(t)).length === 1, 'the call was answered more than once');
    await t.screenshot('answered-elsewhere');
  },
  async stop(t) {
    await t.driver.send(t.page, 'scenario:slow n=200 ms=60');
    await reads(t, 'w5');
    await t.driver.stop(t.page);
    await until('the send button', () => t.page.locator('[data-testid="send"]').isVisible());
    await sleep(500);
    const kept = await words(t.page, t.driver);
    check(kept.length >= 6 && kept.join(' ') === all(kept.length).join(' '), `the page keeps: ${kept.join(' ')}`);
    await sleep(500);
    check((await words(t.page, t.driver)).length === kept.length, 'words still come after the stop');
    const status = await t.helix.get(`/status?sessionId=${encodeURIComponent(await t.helix.session())}`);
    check(status.runStatus !== 'running', `the run is ${status.runStatus} after the stop`);
    await t.screenshot('stopped');
    await t.driver.send(t.page, 'scenario:text');
    await says(t, 'Echo: hello world');
  },
  async error(t) {
    await t.driver.send(t.page, 'scenario:error');
    await until('the error', async () => (await t.page.locator('body').textContent()).includes('scripted failure'));
    await t.screenshot('failed');
    await t.driver.send(t.page, 'scenario:text');
    await says(t, 'Echo: hello world');
  },
};

const studio = {
  async 'deny-with-a-reason'(t) {
    await t.driver.send(t.page, 'scenario:approval');
    await shows('the question', t.driver.approvals(t.page));
    await t.driver.deny(t.page, 'too risky');
    await says(t, 'Not deleted: too risky');
    await oneTurn(t);
  },
  async 'approved-in-the-inbox'(t) {
    await t.driver.send(t.page, 'scenario:approval');
    await shows('the question', t.driver.approvals(t.page));
    const inbox = await t.tab('/inbox');
    const item = inbox.locator('[data-testid="inbox-item"]');
    await shows('the call in the inbox', item);
    await t.screenshot('inbox', inbox);
    const approve = item.locator('[data-testid="approve"]');
    if (!(await approve.first().isVisible())) await item.locator('button').first().click();
    await approve.first().click();
    await hides('the call in the inbox', item);
    await says(t, 'Deleted /tmp/x.');
    await hides('the question', t.driver.approvals(t.page));
  },
  async 'says-that-the-server-is-gone'(t) {
    await t.driver.send(t.page, 'scenario:text');
    await says(t, 'Echo: hello world');
    await t.page.locator('[data-testid="composer"]').fill('a draft');
    await t.helix.kill();
    const bar = t.page.locator('[data-testid="connection-bar"]');
    await shows('the bar', bar);
    await t.screenshot('gone');
    await t.helix.restart();
    await hides('the bar', bar);
    check((await t.page.locator('[data-testid="composer"]').inputValue()) === 'a draft', 'the draft is lost');
  },
  async 'lists-sessions'(t) {
    await t.driver.send(t.page, 'scenario:text');
    await says(t, 'Echo: hello world');
    await t.driver.open(t.page, t.url);
    await t.driver.send(t.page, 'scenario:reasoning');
    await says(t, 'The answer is 42.');
    const items = t.page.locator('[data-testid="session-item"]');
    await until('both sessions', async () => (await items.count()) === 2);
    await items.filter({ hasText: 'scenario:text' }).click();
    await says(t, 'Echo: hello world');
    await oneTurn(t);
  },
  async 'fits-a-narrow-screen'(t) {
    await t.page.setViewportSize({ width: 320, height: 640 });
    for (const [scenario, text] of [['text', 'Echo'], ['server-tool', '21 degrees'], ['mixed', '']]) {
      await t.driver.send(t.page, `scenario:${scenario}`);
      if (text) await says(t, text);
      else await shows('the question', t.driver.approvals(t.page));
      const wide = await t.page.evaluate(() => document.documentElement.scrollWidth);
      check(wide <= 320, `scenario:${scenario} is ${wide} px wide`);
    }
    await t.screenshot('narrow');
    await t.page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
    await t.screenshot('narrow-dark');
  },
};

// proves: RCT-04
export const tests = { studio: { ...both, ...studio }, example: both, 'example-v6': both };
