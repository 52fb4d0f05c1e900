// How each page is driven. Everything is found by data-testid.
import { access } from 'node:fs/promises';
import { serveFolder } from './static.mjs';

const id = (name) => `[data-testid="${name}"]`;

const common = {
  async send(page, text) {
    await page.locator(id('composer')).fill(text);
    await page.locator(id('send')).click();
  },
  async stop(page) {
    await page.locator(id('stop')).click();
  },
  async approve(page) {
    await page.locator(id('approve')).first().click();
  },
  approvals: (page) => page.locator(id('approve')),
  toolCards: (page) => page.locator(id('tool-card')),
};

const example = (dist) => ({
  ...common,
  async serve(helix) {
    const folder = new URL(`../../../examples/chat-react/${dist}`, import.meta.url).pathname;
    await access(`${folder}/index.html`).catch(() => {
      throw new Error(`${folder} is not built: see area_browser in ./test`);
    });
    return serveFolder(folder, helix.url);
  },
  open: (page, url) => page.goto(url),
  users: (page) => page.locator(`${id('message')}[data-role="user"]`),
  answers: (page) => page.locator(`${id('message')}[data-role="assistant"]`),
  forms: (page) => page.locator(id('color-form')),
  async answerForm(page, color) {
    const form = page.locator(id('color-form')).first();
    const input = form.locator('input').first();
    if ((await input.getAttribute('type')) === 'color') await input.evaluate((it, value) => (it.value = value), color);
    else await input.fill(color);
    await form.locator('button').first().click();
  },
  comesBack: false,
});

export const pages = {
  studio: {
    ...common,
    async serve(helix) {
      const built = process.env.HELIX_STUDIO_DIST;
      if (built) return serveFolder(built, helix.url, { base: '/studio/', views: /^\/(s\/.*|inbox)?$/ });
      return { url: helix.url, stop: async () => {} };
    },
    open: (page, url) => page.goto(`${url}/?agent=scenarios`),
    users: (page) => page.locator(id('message-user')),
    answers: (page) => page.locator(id('message-assistant')),
    forms: (page) => page.locator(id('client-form')),
    async answerForm(page, color) {
      await page.locator(`${id('client-form')} input`).first().fill(color);
      await page.locator(id('client-form-submit')).first().click();
    },
    async deny(page, reason) {
      await page.locator(id('deny')).first().click();
      await page.locator(id('deny-reason')).first().fill(reason);
      await page.locator(id('deny-confirm')).first().click();
    },
    ended: (page) => page.locator(id('run-ended')),
    comesBack: true,
  },
  // The same page with both major versions of the AI SDK.
  example: example('dist'),
  'example-v6': example('dist-v6'),
};

/** The words `w0`, `w1`, .. that the answers of the page show, in order. */
export async function words(page, driver) {
  const texts = await driver.answers(page).allTextContents();
  return texts.join(' ').match(/\bw\d+/g) ?? [];
}
