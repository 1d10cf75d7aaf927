// First steps on a new machine, in a real Chromium through the gateway. A person makes the first account, brings an app live,
// fixes a failed deploy in the editor, rolls back, and sees errors and a hostile app.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { welcomeOf } from '../support/e2e/visitor.ts';
import { controlPlane, eventually } from '../support/processes.ts';
import { originOf, PASSWORD } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from '../support/ui/browser.ts';

const cellar = new Cellar();
let browser: UiBrowser;
let ada: Person;
let work: string;

before(async () => {
  if (NEEDS_CHROMIUM.skip !== undefined) return;
  await cellar.start();
  browser = await UiBrowser.start();
  ada = await browser.person(originOf(cellar));
  work = await cellar.checkout('hello');
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await cellar[Symbol.asyncDispose]();
});

/** Pushes a Worker that answers `text`, or other code. Returns git's output. */
async function push(text: string, code = `export default { fetch: () => new Response('${text}') };\n`) {
  writeFileSync(join(work, 'index.js'), code);
  await cellar.commit(work, text);
  return (await cellar.push(work, 'shop')).stderr;
}

const answers = (text: string) =>
  eventually(async () => (await cellar.get('shop')).text === text, `the app answers ${text}`);

test(
  'the welcome link makes the first account, and a pushed app appears as live',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.goto(`/welcome?token=${await welcomeOf(cellar)}`);
    await page.getByLabel('Name', { exact: true }).fill('Ada');
    await page.getByLabel('E-mail').fill('ada@example.com');
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Make the account' }).click();
    await page.getByRole('link', { name: 'Make the first app' }).click();
    await page.getByLabel('Name', { exact: true }).fill('shop');
    await page.getByRole('button', { name: 'Make the app' }).click();
    await page.getByRole('heading', { name: 'shop', level: 1 }).waitFor();
    assert.match(await push('first'), /serves this push/);
    // The page shows the first deploy without a reload.
    await page.getByRole('heading', { name: 'first', level: 1 }).waitFor();
    await page.locator('.screen-head').getByText('live', { exact: true }).waitFor();
    await page.goto('/apps/shop');
    await page.getByRole('heading', { name: 'Last deploys' }).waitFor();
    const [tab] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: 'Open', exact: true }).click(),
    ]);
    await tab.getByText('first').waitFor();
    await tab.close();
    browser.assertQuiet();
  },
);

test('the settings of an app change its location and its build', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/settings');
  const folder = page.getByLabel('Root directory');
  const set = page.getByRole('button', { name: 'Set how it is built' });
  await folder.fill('/srv/shop');
  await set.click();
  await page.getByText(/must be relative to the root of the repository/i).waitFor();
  await folder.fill('apps//web');
  await page.getByLabel('Build command').fill('make');
  await set.click();
  await page.getByText('The next deploy is built this way').waitFor();
  await page.reload();
  assert.equal(await folder.inputValue(), 'apps/web');
  await folder.fill('');
  await page.getByLabel('Build command').fill('');
  await set.click();
  await page.getByText('The next deploy is built this way').waitFor();
  browser.assertQuiet();
});

test(
  'the cause of a failed deploy is shown, fixed in the editor, and rolled back',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    assert.match(
      await push('broken', 'export default {\n  fetch() { return new Response( }\n};\n'),
      /deploy failed/,
    );
    await page.goto('/apps/shop/deploys');
    await page.getByRole('link', { name: 'broken' }).click();
    await page
      .getByRole('link', { name: /index\.js:2/ })
      .first()
      .click();
    // The link shows the deployed source; the editor changes main.
    await page.waitForURL(/\/source\/index\.js/);
    await page.goto('/apps/shop/source/index.js');
    const editor = page.locator('.cm-content');
    // Chromium briefly sets an inline style on text that replaces a selection.
    ada.expect(/Applying inline style violates/);
    await editor.click();
    await page.keyboard.press('Control+a');
    await page.keyboard.insertText("export default { fetch: () => new Response('mended') };\n");
    await page.getByRole('button', { name: 'Commit 1 change' }).click();
    const dialog = page.getByRole('dialog');
    const changed = dialog.getByRole('region', { name: 'What is committed' });
    await changed.getByText('fetch() { return new Response( }').waitFor();
    assert.equal(await changed.locator('tr.removed').count(), 3);
    await changed.locator('tr.added').getByText("new Response('mended')").waitFor();
    await dialog.getByLabel('Message').fill('mended');
    await dialog.getByRole('button', { name: /^Commit/ }).click();
    await answers('mended');
    await page.goto('/apps/shop/deploys');
    await page.getByRole('link', { name: 'first', exact: true }).click();
    await page.getByRole('button', { name: 'Roll back to this' }).click();
    await page.getByRole('button', { name: 'Roll back to this deploy' }).click();
    await answers('first');
    await page.getByText('Ada rolled back').waitFor();
    // Rolls forward from the list.
    await page.goto('/apps/shop/deploys');
    await page.getByRole('button', { name: 'Roll back to this' }).first().click();
    await page.getByRole('button', { name: 'Roll back to this deploy' }).click();
    await answers('mended');
    browser.assertQuiet();
  },
);

test(
  'a restart of the control plane keeps sessions, and the page says that the server does not answer',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.goto('/');
    await page.getByRole('link', { name: 'shop', exact: true }).waitFor();
    ada.expect(/status of 50[0-9]|Failed to load resource|ERR_/);
    const control = controlPlane(cellar.pid)!;
    process.kill(control.pid, 'SIGKILL');
    await eventually(async () => {
      await page.reload();
      return page.getByRole('link', { name: 'shop', exact: true }).isVisible();
    }, 'the apps are there again');
  },
);

test('an ended session asks for the password, and returns to the same page', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/deploys');
  await page.getByRole('link', { name: 'mended' }).first().waitFor();
  ada.expect(/status of 401/);
  await page.context().clearCookies();
  await page.reload();
  await page.getByLabel('E-mail').fill('ada@example.com');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('link', { name: 'mended' }).first().waitFor();
  assert.match(page.url(), /\/apps\/shop\/deploys$/);
  browser.assertQuiet();
});

const EVIL = (
  origin: string,
) => `export default { fetch: () => new Response(\`<!doctype html><title>evil</title><iframe src="${origin}/"></iframe><script type="module">
  const found = {};
  const tried = async (name, act) => { try { found[name] = await act(); } catch (error) { found[name] = error.name; } };
  document.cookie = 'cellar.session_token=stolen; domain=localhost; path=/';
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'apps.create', params: { slug: 'stolen' } });
  await tried('reads', async () => (await fetch('${origin}/session', { credentials: 'include' })).status);
  await tried('posts', async () => (await fetch('${origin}/rpc', { method: 'POST', credentials: 'include', body, headers: { 'content-type': 'application/json' } })).status);
  await tried('posts plainly', async () => (await fetch('${origin}/rpc', { method: 'POST', mode: 'no-cors', credentials: 'include', body })).type);
  document.title = JSON.stringify(found);
</script>\`, { headers: { 'content-type': 'text/html', 'set-cookie': 'cellar.session_token=planted; Domain=localhost; Path=/' } }) };`;

test(
  'an app that sets cookies for the parent, frames the control UI and posts to it gets nothing',
  NEEDS_CHROMIUM,
  async () => {
    await cellar.deploy('evil', 'hello', { 'index.js': EVIL(originOf(cellar)) });
    const { page } = ada;
    ada.expect(/./);
    await page.goto(`http://evil.localhost:${cellar.edgePort}/`);
    await page.waitForFunction("document.title.startsWith('{')");
    const found = JSON.parse(await page.title());
    assert.deepEqual(found.reads, 'TypeError');
    assert.deepEqual(found.posts, 'TypeError');
    const framed = page.frames().filter((frame) => frame !== page.mainFrame());
    await eventually(
      () => framed.every((frame) => frame.url().startsWith('chrome-error:')),
      'the frame is refused',
    );
    const slugs = (await cellar.call('GET', '/v1/apps')).body.items.map((app: { slug: string }) => app.slug);
    assert.deepEqual(slugs.sort(), ['evil', 'shop']);
    await page.goto('/');
    await page.getByRole('link', { name: 'shop', exact: true }).waitFor();
  },
);
