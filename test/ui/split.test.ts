// Two versions that share the requests of an app, in the control UI in a real Chromium.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { becomeFirst, originOf } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from '../support/ui/browser.ts';
import { acceptedRpcOf } from '../support/ui/views.ts';

const cellar = new Cellar();
let browser: UiBrowser;
let ada: Person;

before(async () => {
  if (NEEDS_CHROMIUM.skip !== undefined) return;
  await cellar.start();
  browser = await UiBrowser.start();
  ada = await browser.person(originOf(cellar));
  await becomeFirst(ada, cellar);
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await cellar[Symbol.asyncDispose]();
});

test('the page of deploys shows both versions, and ends the split', NEEDS_CHROMIUM, async () => {
  const rpc = acceptedRpcOf(cellar);
  const worker = (text: string) => ({
    'index.js': `export default { fetch: () => new Response('${text}') };`,
  });
  const id = await cellar.deploy('shared', 'hello', worker('one'));
  await cellar.deployAgain('shared', 'hello', worker('two'));
  const [live, earlier] = (await rpc('deploys.list', { id })).items;
  const versions = [
    { version: live.version.id, percentage: 75 },
    { version: earlier.version.id, percentage: 25 },
  ];
  await rpc('split.set', { id, versions });
  const { page } = ada;
  await page.goto('/apps/shared/deploys');
  const panel = page.getByRole('region', { name: 'Two versions share the requests' });
  const second = panel.getByRole('listitem').filter({ hasText: '25 %' });
  await second.getByText(earlier.version.id).waitFor();
  await second.getByRole('button', { name: 'Send all requests' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Send all requests to it' }).click();
  await panel.waitFor({ state: 'detached' });
  assert.equal((await cellar.get('shared')).text, 'one');
});
