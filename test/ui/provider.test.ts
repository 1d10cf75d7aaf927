// Sign-in by a provider, keys with fewer rights, and the audit log, in a real Chromium.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditEntry } from '../../handlers/contract/people/audit.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { CLIENT, TestProvider } from '../support/sign-in/provider.ts';
import { originOf } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from '../support/ui/browser.ts';

const provider = await TestProvider.start();
const cellar = new Cellar({
  RUNNER_OIDC_URL: provider.issuer,
  RUNNER_OIDC_CLIENT_ID: CLIENT.id,
  RUNNER_OIDC_CLIENT_SECRET: CLIENT.secret,
  RUNNER_OIDC_NAME: 'Example ID',
  RUNNER_OIDC_SCOPES: 'openid email profile groups',
  RUNNER_OIDC_ROLES: 'dev=member',
});
const rpc = rpcOf(cellar);
let browser: UiBrowser;
let grace: Person;

before(async () => {
  if (NEEDS_CHROMIUM.skip !== undefined) return;
  await cellar.start();
  provider.serve(originOf(cellar));
  const person = { email_verified: true, groups: ['dev'] };
  provider.people.set('grace', { ...person, email: 'grace@example.com', name: 'Grace' });
  provider.people.set('nobody', { ...person, email: 'nobody@example.com', groups: [] });
  browser = await UiBrowser.start();
  grace = await browser.person(originOf(cellar));
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await cellar[Symbol.asyncDispose]();
  await provider.close();
});

async function signIn({ page }: Person, subject: string): Promise<void> {
  provider.next = subject;
  await page.goto('/sign-in');
  await page.getByRole('button', { name: 'Sign in with Example ID' }).click();
}

test('a person who has no role is told so on the sign-in page', NEEDS_CHROMIUM, async () => {
  const nobody = await browser.person(originOf(cellar));
  await signIn(nobody, 'nobody');
  await nobody.page.getByText('None of your groups has a role on this machine').waitFor();
  assert.deepEqual(await nobody.findings(), []);
});

test('a person signs in by the provider', NEEDS_CHROMIUM, async () => {
  await signIn(grace, 'grace');
  await grace.page.getByRole('heading', { name: 'Apps', level: 1 }).waitFor();
  await grace.page.goto('/account');
  await grace.page.getByText('grace@example.com, a member of this machine').waitFor();
});

test('an invite continues after its person has signed in by the provider', NEEDS_CHROMIUM, async () => {
  const id = await cellar.create('shop');
  const { url } = await rpc('invites.create', { role: 'member', app: { id, role: 'push' } });
  // First by the button on the page of the invite, then by its link to the sign-in page.
  for (const first of ['Sign in with Example ID', 'I have an account here']) {
    const { page } = await browser.person(originOf(cellar));
    provider.next = 'grace';
    await page.goto(url);
    await page
      .getByRole('button', { name: first })
      .or(page.getByRole('link', { name: first }))
      .click();
    if (first.startsWith('I have'))
      await page.getByRole('button', { name: 'Sign in with Example ID' }).click();
    await page.getByText('You are signed in as Grace, grace@example.com').waitFor();
    if (!first.startsWith('I have')) continue;
    await page.getByRole('button', { name: 'Accept' }).click();
    await page.getByRole('heading', { name: 'shop', level: 1 }).waitFor();
  }
  const { items } = await rpc('audit.list', { operation: 'invites.accept', app: 'shop' });
  assert.deepEqual(
    items.map((entry: AuditEntry) => [entry.name, entry.address]),
    [['Grace', '127.0.0.1']],
  );
});

test('a key is made with fewer rights, and the audit log of the person has it', NEEDS_CHROMIUM, async () => {
  const { page } = grace;
  await page.getByRole('button', { name: 'Make a key' }).click();
  await page.getByLabel('What it is for').fill('ci');
  await page.getByLabel('What it may do').selectOption('read');
  await page.getByLabel('How long it works').selectOption('90');
  assert.deepEqual(await grace.findings(), []);
  await page.getByRole('button', { name: 'Make the key' }).click();
  await page.getByRole('button', { name: 'I have kept it' }).click();
  const row = page.getByRole('row', { name: /ci/ });
  await row.getByRole('cell', { name: 'Read', exact: true }).waitFor();
  const { items: accounts } = await rpc('accounts.list', {});
  const { id } = accounts.find(({ name }: { name: string }) => name === 'Grace');
  const { items: keys } = await rpc('keys.list', { account: id });
  assert.deepEqual([keys[0].scope, keys[0].app, keys[0].last_used_at], ['read', null, null]);
  const days = (Date.parse(keys[0].expires_at) - Date.now()) / (24 * 3_600_000);
  assert.ok(days > 89 && days <= 90);
  await page.getByRole('link', { name: 'What you changed' }).click();
  const made = page.getByRole('row', { name: /keys\.create/ });
  await made.getByText('name ci').waitFor();
  await made.getByText('Browser').waitFor();
  await page
    .getByRole('row', { name: /sign_in by provider/ })
    .first()
    .waitFor();
  await page.getByLabel('Only of the operation').fill('apps.delete');
  await page.getByText('No such change').waitFor();
  browser.assertQuiet();
});

test('the log is exported with the filter of the page', NEEDS_CHROMIUM, async () => {
  const { page } = grace;
  await page.getByLabel('Only of the operation').fill('keys.create');
  await page.getByRole('row', { name: /keys\.create/ }).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('link', { name: 'Export' }).click(),
  ]);
  assert.equal(download.suggestedFilename(), 'audit.ndjson');
  const parts = await (await download.createReadStream()).toArray();
  const lines = Buffer.concat(parts).toString('utf8').trim().split('\n');
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).operation),
    ['keys.create'],
  );
});
