// Navigation in a real Chromium: sections, the finder, the app switcher, the docs, and questions before actions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { ownPort } from '../support/ports.ts';
import { NEEDS_CHROMIUM, type Person, type UiBrowser } from '../support/ui/browser.ts';
import { startUi } from '../support/ui/start.ts';
import { acceptedRpcOf, settled } from '../support/ui/views.ts';

const tcpPort = ownPort();
const cellar = new Cellar({ RUNNER_TCP_PORTS: String(tcpPort) });
const rpc = acceptedRpcOf(cellar);
let browser: UiBrowser;
let ada: Person;

const WORKER = {
  'wrangler.toml': `name = "shop"
main = "main.ts"
compatibility_date = "2026-10-01"
[[r2_buckets]]
binding = "FILES"
bucket_name = "pictures"
`,
  'main.ts': `const svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><rect width="10" height="10"/></svg>';
export default {
  async fetch(request: Request, env: any) {
    await env.FILES.put('mark.svg', svg, { httpMetadata: { contentType: 'image/svg+xml' } });
    return new Response('open');
  },
};
`,
};

startUi(
  cellar,
  (person, started) => {
    ada = person;
    browser = started;
  },
  async () => {
    await cellar.deploy('shop', 'hello', WORKER);
    await cellar.create('stock');
    await cellar.get('shop');
  },
);

test(
  'the sections are in groups, and the machine and the docs are one click away',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.goto('/apps/shop/variables');
    await settled(ada);
    const sections = page.getByRole('navigation', { name: 'Sections' });
    assert.deepEqual(await sections.getByRole('heading').allInnerTexts(), [
      'Observe',
      'Deploy',
      'Data',
      'Settings',
    ]);
    const docs = page.getByRole('banner').getByRole('link', { name: 'Docs' });
    assert.equal(await docs.getAttribute('href'), '/docs/storage#secrets');
    await page.getByRole('banner').getByRole('link', { name: 'Machine' }).click();
    await page.getByRole('heading', { name: 'Machine', level: 1 }).waitFor();
    assert.equal(await docs.getAttribute('href'), '/docs/operations');
    browser.assertQuiet();
  },
);

test('every section has a page of the docs, and the docs are accessible', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const targets = new Set<string>();
  for (const path of ['/apps/shop', '/machine', '/', '/account', '/new']) {
    await page.goto(path);
    await settled(ada);
    const links = page.getByRole('navigation', { name: 'Sections' }).getByRole('link');
    const hrefs = await Promise.all((await links.all()).map((link) => link.getAttribute('href')));
    for (const href of hrefs.length > 0 ? hrefs : [path]) {
      await page.goto(href!);
      await page.locator('h1').first().waitFor();
      targets.add((await page.locator('.bar-link').last().getAttribute('href'))!);
    }
  }
  for (const target of targets) {
    assert.equal((await page.request.get(target)).status(), 200, target);
    await page.goto(target);
    const anchor = target.split('#')[1];
    if (anchor !== undefined) assert.equal(await page.locator(`[id="${anchor}"]`).count(), 1, target);
  }
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.goto('/docs/settings');
    assert.deepEqual(await ada.findings(), [], colorScheme);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  assert.deepEqual(await ada.overflowingElements(), []);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: 'light' });
  browser.assertQuiet();
});

test('the breadcrumb switches to another app and stays on the section', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/domains');
  await settled(ada);
  await page.getByRole('button', { name: 'Switch to another app' }).press('Enter');
  const dialog = page.getByRole('dialog', { name: 'Switch app' });
  await dialog.getByRole('option', { name: 'stock' }).waitFor();
  assert.equal(await dialog.getByRole('option').count(), 1, 'only the other apps');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/apps/stock/domains');
  browser.assertQuiet();
});

test('the finder knows what people type', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const words: [typed: string, first: RegExp, leads: string][] = [
    ['secret', /Set a secret/, '/apps/shop/variables'],
    ['env', /Set an environment variable/, '/apps/shop/variables'],
    ['maintenance', /Turn maintenance on or off/, '/apps/shop/settings'],
    ['rollback', /Roll back to an earlier deploy/, '/apps/shop/deploys'],
    ['cron', /Run a cron now/, '/apps/shop'],
    ['token', /API key|secret/, ''],
    ['dns', /Domains|Add a domain/, '/apps/shop/domains'],
    ['webhook', /Send alerts to a webhook/, '/apps/shop/alerts'],
    ['invite', /Invite somebody to this app/, '/apps/shop/collaborators'],
    ['backup', /Back up this machine|Backup/, ''],
    ['restore', /Restore an app from a snapshot/, '/machine/snapshots'],
    ['delete', /Delete this app/, '/apps/shop/settings'],
    ['logout', /Sign out/, ''],
  ];
  for (const [typed, first, leads] of words) {
    await page.goto('/apps/shop');
    await settled(ada);
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog', { name: 'Find' }).waitFor();
    await page.keyboard.type(typed);
    await page.getByRole('option', { name: first, selected: true }).waitFor();
    if (leads === '') continue;
    await page.keyboard.press('Enter');
    await page.waitForURL(`**${leads}`);
  }
  browser.assertQuiet();
});

test('a stop and a new name are asked for, and can be declined', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop');
  await settled(ada);
  const dialog = page.getByRole('dialog');
  const stop = async (answer: string) => {
    await page.getByRole('button', { name: 'More' }).click();
    await page.getByRole('menuitem', { name: 'Stop the app' }).click();
    await dialog.getByRole('button', { name: answer }).click();
    await dialog.waitFor({ state: 'detached' });
  };
  await stop('Cancel');
  assert.notEqual((await rpc('apps.get', { id: 'shop' })).status, 'stopped');
  await stop('Stop the app');
  await page.getByText('shop is stopped').waitFor();
  assert.equal((await rpc('apps.get', { id: 'shop' })).status, 'stopped');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.goto('/apps/shop/settings');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('store');
  const rename = page.getByRole('button', { name: 'Rename the app' });
  await rename.click();
  await dialog.waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.equal((await rpc('apps.get', { id: 'shop' })).slug, 'shop');
  await rename.click();
  await dialog.getByRole('button', { name: 'Rename the app' }).click();
  await page.waitForURL('**/apps/store/settings');
  await rpc('apps.rename', { id: 'store', slug: 'shop' });
  browser.assertQuiet();
});

test('an SVG without a size of its own is shown in a size that can be seen', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/storage/buckets/pictures?key=mark.svg');
  const image = page.locator('.picture img');
  await image.evaluate((loading) => (loading as unknown as { decode: () => Promise<void> }).decode());
  const box = (await image.boundingBox())!;
  assert.ok(box.width >= 100 && box.height >= 100, `${box.width} × ${box.height}`);
});

test('domains on localhost promise nothing that cannot work', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/domains');
  await page.getByText('no domain can lead here').waitFor();
  await page.getByLabel('Hostname').fill('shop.example.com');
  await page.getByRole('button', { name: 'Add this domain' }).click();
  await page.getByText('answers on this machine', { exact: true }).waitFor();
  assert.equal(await page.getByText('where you manage the domain').count(), 0);
  assert.equal(await page.getByRole('link', { name: 'shop.example.com' }).count(), 0);
  browser.assertQuiet();
});

test('an app gets an e-mail address, and loses it', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/domains');
  await page.getByText('No e-mail address').waitFor();
  const field = page.getByLabel('Address', { exact: true });
  await field.fill('Info@shop.localhost');
  await field.press('Enter');
  await page.getByText('The app gets the messages to info@shop.localhost').waitFor();
  await page.getByText('This Cellar receives no e-mails yet').waitFor();
  assert.equal(await page.getByText('MX').count(), 0, 'no record leads to this machine');
  await page.getByRole('button', { name: 'Remove info@shop.localhost' }).press('Enter');
  await page.getByText('No e-mail address').waitFor();
  browser.assertQuiet();
});

test('an app gets a TCP port of the operator, and loses it', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/domains');
  await page.getByText('No TCP port').waitFor();
  const field = page.getByLabel('TCP port', { exact: true });
  await field.fill(String(tcpPort + 1));
  await field.press('Enter');
  await page.getByText(`must be one of ${tcpPort}`).waitFor();
  await field.fill(String(tcpPort));
  await field.press('Enter');
  await page.getByText(`The app gets the connections to port ${tcpPort}`).waitFor();
  await page.getByRole('button', { name: `Remove port ${tcpPort}` }).press('Enter');
  await page.getByText('No TCP port').waitFor();
});

test('an e-mail address on a server names the records that it needs', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const { id } = await rpc('apps.get', { id: 'shop' });
  await rpc('domains.add', { id, hostname: 'mail.example.com' });
  await rpc('mail.routes.set', { id, address: '*@mail.example.com' });
  await page.route('**/session', async (route) => {
    const response = await route.fetch();
    const answer = await response.json();
    answer.urls.app = 'https://{slug}.cellar.example';
    answer.receives_mail = true;
    await route.fulfill({ response, json: answer });
  });
  await page.setViewportSize({ width: 390, height: 800 });
  await page.goto('/apps/shop/domains');
  await page.getByText('mail.example.com.  MX  10 cellar.example.').waitFor();
  await settled(ada);
  assert.equal(await page.getByText('receives no e-mails yet').count(), 0);
  assert.deepEqual(await ada.overflowingElements(), [], 'it scrolls sideways at 390 px');
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    assert.deepEqual(await ada.findings(), [], colorScheme);
  }
  await page.unroute('**/session');
  await page.setViewportSize({ width: 1280, height: 800 });
  browser.assertQuiet();
});
