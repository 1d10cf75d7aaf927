// The panel of a connected repository, in a real Chromium: connecting, deliveries, pull requests, disconnecting.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { NEEDS_CHROMIUM, type Person, type UiBrowser } from '../support/ui/browser.ts';
import { startUi } from '../support/ui/start.ts';
import { acceptedRpcOf, settled } from '../support/ui/views.ts';

const LONG =
  'A change with a title that is as long as people make them, and longer than a small screen is wide';
const WIDTHS = [390, 1440, 2560];

const cellar = new Cellar();
const rpc = acceptedRpcOf(cellar);
let browser: UiBrowser;
let ada: Person;
let id: string;

startUi(
  cellar,
  (person, started) => {
    ada = person;
    browser = started;
  },
  async () => {
    id = await cellar.create('shop');
  },
);

/** Asserts that axe finds nothing in both themes, and that no width scrolls sideways. */
async function assertFits(name: string): Promise<void> {
  const { page } = ada;
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    await settled(ada);
    assert.deepEqual(await ada.overflowingElements(), [], `${name} scrolls sideways at ${width} px`);
  }
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    assert.deepEqual(await ada.findings(), [], `${name} in the ${colorScheme} theme`);
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  await page.setViewportSize({ width: 1440, height: 900 });
}

/** Delivers GitHub's webhook of a pull request from a fork. */
async function deliver(secret: string, number: number, title: string): Promise<void> {
  const pull = {
    number,
    title,
    state: 'open',
    updated_at: '2026-01-01T00:00:00Z',
    author_association: 'NONE',
    user: { login: 'mallory' },
    head: { ref: 'change', sha: `${number}`.repeat(40), repo: { full_name: 'mallory/shop' } },
    base: { repo: { full_name: 'ada/shop' } },
  };
  const body = JSON.stringify({ action: 'opened', pull_request: pull });
  const signature = createHmac('sha256', secret).update(body).digest('hex');
  const response = await fetch(`${cellar.api}/v1/hooks/${id}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'pull_request',
      'x-hub-signature-256': `sha256=${signature}`,
    },
    body,
  });
  assert.equal(response.status, 202, await response.text());
}

test('a repository is connected by keyboard, and its key and secret are shown', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/apps/shop/settings');
  await settled(ada);
  await assertFits('form');
  await page.getByLabel('Repository').fill('https://git.invalid/ada/shop');
  await page.getByLabel('What is deployed').selectOption('manual');
  await page.getByLabel('Repository').press('Enter');
  await page.getByText('The secret of the webhook is shown only now').waitFor();
  await page.getByText('The webhook has not been called yet.').waitFor();
  await page.getByText(/^ssh-ed25519 AAAA/).waitFor();
  await assertFits('connected');
  assert.equal((await rpc('source.get', { id })).deploy_on, 'manual');
});

test('deliveries and pull requests are shown, and an approval asks first', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const { secret } = await rpc('source.connect', {
    id,
    url: 'https://git.invalid/ada/shop',
    deploy_on: 'manual',
    secret: 'a-secret-of-sixteen-or-more',
  });
  await deliver(secret, 1, 'A small change');
  await deliver(secret, 2, LONG);
  await page.reload();
  await page
    .getByRole('table', { name: 'Deliveries of the webhook' })
    .getByText('pull_request')
    .first()
    .waitFor();
  const row = page.getByRole('listitem').filter({ hasText: '#1 A small change' });
  await row.getByText('waiting').waitFor();
  await assertFits('pull-requests');
  const approve = page.getByRole('button', { name: 'Approve #1' });
  await approve.click();
  const dialog = page.getByRole('dialog', { name: 'Approve #1?' });
  await dialog.getByText(/with the variables and secrets of the app/).waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal((await rpc('source.get', { id })).pulls.at(-1).state, 'waiting');
  await approve.click();
  await dialog.getByRole('button', { name: 'Approve this commit' }).click();
  await approve.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Approve #2' }).waitFor();
});

test('disconnecting asks first', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const disconnect = page.getByRole('button', { name: 'Disconnect' });
  await disconnect.click();
  const dialog = page.getByRole('dialog', { name: 'Disconnect the repository?' });
  await assertFits('question');
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.ok((await rpc('source.get', { id })).url);
  await disconnect.click();
  await dialog.getByRole('button', { name: 'Disconnect' }).click();
  await page.getByRole('button', { name: 'Connect the repository' }).waitFor();
  browser.assertQuiet();
});
