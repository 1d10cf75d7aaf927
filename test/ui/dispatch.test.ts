// Dispatch namespaces and their scripts in a real Chromium: the empty list, what Wrangler has uploaded, and deleting both.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { NEEDS_CHROMIUM, type Person, type UiBrowser } from '../support/ui/browser.ts';
import { startUi } from '../support/ui/start.ts';
import { settled } from '../support/ui/views.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar();
let browser: UiBrowser;
let ada: Person;
startUi(cellar, (person, started) => {
  ada = person;
  browser = started;
});

/** Checks the screen in both themes and at 360 px. */
async function assertFits(): Promise<void> {
  const { page } = ada;
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    assert.deepEqual(await ada.findings(), [], `in the ${colorScheme} theme`);
  }
  await page.setViewportSize({ width: 360, height: 740 });
  assert.deepEqual(await ada.overflowingElements(), [], 'it scrolls sideways at 360 px');
  await page.setViewportSize({ width: 1280, height: 800 });
}

test(
  'namespaces and scripts of Wrangler are shown, and are deleted after a question',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.goto('/');
    await settled(ada);
    await page.getByRole('button', { name: /^Account of/ }).click();
    await page.getByRole('menuitem', { name: 'Dispatch namespaces' }).click();
    await page.getByText('wrangler dispatch-namespace create customers').waitFor();
    await assertFits();

    const long = 'w'.repeat(63);
    const project = new Project(cellar, {
      'index.js': 'export default { fetch: () => new Response("hello") };',
      'wrangler.jsonc': '{ "name": "script", "main": "index.js", "compatibility_date": "2026-10-01" }',
    });
    for (const words of [
      ['dispatch-namespace', 'create', long],
      ...['alice', long].map((name) => ['deploy', '--dispatch-namespace', long, '--name', name]),
    ]) {
      const { code, stdout, stderr } = await project.wrangler(...words);
      assert.equal(code, 0, stdout + stderr);
    }
    await page.reload();
    const row = page.getByRole('row').filter({ has: page.getByRole('link', { name: long }) });
    await row.getByRole('cell', { name: '2', exact: true }).waitFor();
    assert.equal(await row.getByRole('button').count(), 0, 'a namespace with scripts cannot be deleted');
    await assertFits();
    await row.getByRole('link').click();
    await page.getByRole('heading', { name: long, level: 1 }).waitFor();
    await page.getByRole('link', { name: 'alice', exact: true }).waitFor();
    await assertFits();

    for (const [link, heading] of [
      ['alice', 'alice'],
      ['Logs of alice', 'Logs'],
      ['Requests of alice', 'Requests'],
    ] as const) {
      await page.getByRole('link', { name: link, exact: true }).click();
      await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
      if (link === 'alice') {
        await settled(ada);
        assert.equal(
          await page.getByRole('link', { name: 'Open', exact: true }).count(),
          0,
          'it has no address',
        );
        await page.getByText('A script of the dispatch namespace').getByRole('link').click();
      } else await page.goBack();
      await page.getByRole('heading', { name: long, level: 1 }).waitFor();
    }

    const dialog = page.getByRole('dialog');
    for (const name of ['alice', long]) {
      await page.getByRole('button', { name: `Delete ${name}` }).click();
      await dialog.getByLabel(`Type ${name} to delete it`).fill(name);
      await dialog.getByRole('button', { name: 'Delete the app' }).click();
      await page.getByRole('link', { name, exact: true }).waitFor({ state: 'detached' });
    }
    await page.getByText('No scripts here').waitFor();
    await assertFits();
    await page
      .getByRole('navigation', { name: 'Breadcrumb' })
      .getByRole('link', { name: 'Dispatch namespaces' })
      .click();
    await page.getByRole('button', { name: `Delete ${long}` }).click();
    await dialog.getByRole('button', { name: 'Delete the namespace' }).click();
    await page.getByText('No dispatch namespaces yet').waitFor();
    browser.assertQuiet();
  },
);
