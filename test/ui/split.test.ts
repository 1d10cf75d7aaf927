// Two versions that share the requests of an app, in the control UI in a real Chromium.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { NEEDS_CHROMIUM, type Person } from '../support/ui/browser.ts';
import { startUi } from '../support/ui/start.ts';
import { acceptedRpcOf } from '../support/ui/views.ts';

const cellar = new Cellar();
let ada: Person;

startUi(cellar, (person) => {
  ada = person;
});

test('two versions share the requests, until the page of deploys ends it', NEEDS_CHROMIUM, async () => {
  const rpc = acceptedRpcOf(cellar);
  const worker = (text: string) => ({
    'index.js': `export default { fetch: () => new Response('${text}') };`,
  });
  const id = await cellar.deploy('shared', 'hello', worker('one'));
  await cellar.deployAgain('shared', 'hello', worker('two'));
  const [live, earlier] = (await rpc('deploys.list', { id })).items;
  assert.notEqual(live.version.id, earlier.version.id);
  const { page } = ada;
  await page.goto(`/apps/shared/deploys/${earlier.id}`);
  await page.getByRole('button', { name: 'Share requests' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Requests for this version, in percent').fill('25');
  assert.deepEqual(await ada.findings(), []);
  await dialog.getByRole('button', { name: 'Share the requests' }).click();
  await page.getByRole('heading', { name: 'Deploys', level: 1 }).waitFor();
  const { versions } = await rpc('split.get', { id });
  assert.deepEqual(
    versions.map((each: { id: string; percentage: number }) => [each.id, each.percentage]),
    [
      [live.version.id, 75],
      [earlier.version.id, 25],
    ],
  );
  const panel = page.getByRole('region', { name: 'Two versions share the requests' });
  const second = panel.getByRole('listitem').filter({ hasText: '25 %' });
  await second.getByText(earlier.version.id).waitFor();
  await second.getByRole('button', { name: 'Send all requests' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send all requests to it' }).click();
  await panel.waitFor({ state: 'detached' });
  assert.equal((await cellar.get('shared')).text, 'one');
});
