// Deploys that are begun in a real Chromium: of a tag, and of a folder that is chosen or dropped.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';
import { NEEDS_CHROMIUM, type Person } from '../support/ui/browser.ts';
import { startUi } from '../support/ui/start.ts';
import { acceptedRpcOf, settled } from '../support/ui/views.ts';

const DEPLOY_MS = 120_000;

const cellar = new Cellar();
const rpc = acceptedRpcOf(cellar);
let ada: Person;

startUi(cellar, (person) => {
  ada = person;
});

/** Waits until an app answers with a text. */
async function serves(slug: string, text: string): Promise<void> {
  await eventually(async () => (await cellar.get(slug)).text === text, `it serves ${text}`, DEPLOY_MS);
}

function folderOf(files: Record<string, string>): string {
  const folder = join(cellar.directory, 'dist');
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return folder;
}

test('a chosen folder is the first code of an app, and a later one replaces it', NEEDS_CHROMIUM, async () => {
  const id = await cellar.create('site');
  const { page } = ada;
  await page.goto('/apps/site');
  await settled(ada);
  const folder = folderOf({
    'index.html': 'one',
    'a/b.txt': 'b',
    '.env': 'SECRET=1',
    'node_modules/x.js': '',
  });
  await page.getByLabel('Folder').setInputFiles(folder);
  await page.waitForURL(/\/apps\/site\/deploys\/\w{16}$/);
  await serves('site', 'one');
  assert.equal((await cellar.get('site', '/a/b.txt')).text, 'b');
  assert.equal((await cellar.get('site', '/.env')).status, 404);

  await page.goto('/apps/site/deploys');
  await settled(ada);
  assert.equal(await page.locator('[data-row]').count(), 1);
  assert.equal(await page.getByRole('button', { name: 'Deploy main again' }).count(), 0, 'it has no main');
  const read = page.waitForResponse(
    (response) => response.request().postData()?.includes('workflows.list') ?? false,
  );
  await page.keyboard.press('Control+k');
  await read;
  await settled(ada);
  await page.getByRole('option', { name: 'Put to sleep' }).waitFor();
  assert.equal(await page.getByRole('option', { name: 'Deploy main again' }).count(), 0);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Upload a folder' }).click();
  const dialog = page.getByRole('dialog', { name: 'Deploy a built folder' });
  await dialog.getByLabel('Folder').setInputFiles(join(folder, 'a'));
  await dialog.getByText('The folder has no index.html at its top; choose the built folder.').waitFor();
  folderOf({ 'index.html': 'two' });
  await dialog.getByLabel('Folder').setInputFiles(folder);
  await page.waitForURL(/\/apps\/site\/deploys\/\w{16}$/);
  await serves('site', 'two');
  const { items } = await rpc('deploys.list', { id });
  assert.deepEqual(
    items.map(({ trigger }: { trigger: string }) => trigger),
    ['upload', 'upload'],
  );
});

test('a dropped folder is deployed', NEEDS_CHROMIUM, async () => {
  await cellar.create('dropped');
  const { page } = ada;
  await page.goto('/apps/dropped');
  await settled(ada);
  const folder = folderOf({ 'index.html': 'dropped', 'a/b.txt': 'b', '.env': 'SECRET=1' });
  const zone = page.locator('.way .drop');
  await zone.scrollIntoViewIfNeeded();
  const { x, y } = (await zone.boundingBox())!;
  const devtools = await page.context().newCDPSession(page);
  const drag = (type: 'dragEnter' | 'dragOver' | 'drop') =>
    devtools.send('Input.dispatchDragEvent', {
      type,
      x: x + 20,
      y: y + 20,
      data: { items: [], files: [folder], dragOperationsMask: 1 },
    });
  await drag('dragEnter');
  await drag('dragOver');
  await zone.getByText('Drop to deploy').waitFor();
  await drag('drop');
  await page.waitForURL(/\/apps\/dropped\/deploys\/\w{16}$/);
  await serves('dropped', 'dropped');
  assert.equal((await cellar.get('dropped', '/a/b.txt')).text, 'b');
  assert.equal((await cellar.get('dropped', '/.env')).status, 404);
});

test('a tag is deployed by its name, and an unknown one is refused', NEEDS_CHROMIUM, async () => {
  const worker = (text: string) => ({
    'index.js': `export default { fetch: () => new Response('${text}') };\n`,
  });
  await cellar.deploy('shop', 'hello', worker('one'));
  const work = await cellar.checkout('hello');
  assert.equal(
    (
      await cellar.git(
        work,
        'pull',
        '--quiet',
        '--rebase=false',
        '--allow-unrelated-histories',
        '-X',
        'theirs',
        cellar.remote('shop'),
        'main',
      )
    ).code,
    0,
  );
  assert.equal((await cellar.git(work, 'push', cellar.remote('shop'), 'HEAD:refs/tags/v1')).code, 0);
  const { page } = ada;
  await page.goto('/apps/shop/deploys');
  await settled(ada);
  await page.getByRole('button', { name: 'Deploy a tag or commit' }).click();
  const dialog = page.getByRole('dialog', { name: 'Deploy a tag or commit' });
  await dialog.getByLabel('Tag, branch or commit').fill('v9');
  await dialog.getByRole('button', { name: 'Deploy it' }).click();
  await page.getByText('Ref: the repository has no tag, branch or commit v9; push it first.').waitFor();
  await dialog.getByLabel('Tag, branch or commit').fill('v1');
  await dialog.getByRole('button', { name: 'Deploy it' }).click();
  await page.waitForURL(/\/apps\/shop\/deploys\/\w{16}$/);
  await page.getByText('deployed v1').first().waitFor();
});
