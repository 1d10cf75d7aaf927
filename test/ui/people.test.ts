// Invites, sign-in and password reset in a real Chromium.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { Inbox } from '../support/mail/inbox.ts';
import { eventually } from '../support/processes.ts';
import { accept, originOf, PASSWORD } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from '../support/ui/browser.ts';

const inbox = await Inbox.start();
const cellar = new Cellar({ RUNNER_SMTP_URL: inbox.url, RUNNER_SMTP_FROM: 'cellar@example.com' });
const rpc = rpcOf(cellar);
let browser: UiBrowser;
/** A member with an app. */
let bob: Person;

before(async () => {
  if (NEEDS_CHROMIUM.skip !== undefined) return;
  await cellar.start();
  browser = await UiBrowser.start();
  bob = await member('Bob');
  const { items } = await rpc('accounts.list', { limit: 200 });
  const { id } = items.find(({ name }: { name: string }) => name === 'Bob');
  await rpc('apps.create', { slug: 'of-bob', owner: id });
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await cellar[Symbol.asyncDispose]();
  await inbox.close();
});

/** Makes an account and returns the signed-in person. */
async function member(name: string): Promise<Person> {
  const { url } = await rpc('invites.create', {});
  const person = await browser.person(originOf(cellar));
  await accept(person, cellar, new URL(url).searchParams.get('token')!, name);
  return person;
}

/** Makes Bob invite an address. @returns the link from the e-mail */
async function invite(email: string, role: string): Promise<string> {
  const { page } = bob;
  await page.getByRole('button', { name: 'Invite somebody' }).click();
  await page.getByLabel('Their e-mail address').fill(email);
  await page.getByRole('dialog').getByLabel('Role').selectOption(role);
  await page.getByRole('button', { name: 'Make the link' }).click();
  await page.getByText(`The link was sent to ${email}`).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Copy the link' }).count(), 0, 'it is theirs alone');
  assert.deepEqual(await bob.findings(), []);
  await page.getByRole('button', { name: 'Done' }).click();
  await page.getByRole('cell', { name: email, exact: true }).waitFor();
  return inbox.linksTo(email).at(-1)!;
}

test(
  'the admin of an app invites somebody, who makes an account and works on that app',
  NEEDS_CHROMIUM,
  async () => {
    await bob.page.goto('/apps/of-bob/collaborators');
    const link = await invite('carol@example.com', 'push');
    const carol = await browser.person(originOf(cellar));
    await carol.page.goto(link);
    await carol.page
      .getByText('With this link you may deploy the app of-bob, as a guest, who owns no apps.')
      .waitFor();
    assert.equal(await carol.page.getByLabel('E-mail').inputValue(), 'carol@example.com');
    assert.equal(await carol.page.getByLabel('E-mail').isEditable(), false);
    assert.deepEqual(await carol.findings(), []);
    await carol.page.getByLabel('Name').fill('Carol');
    await carol.page.getByLabel('Password').fill(PASSWORD);
    await carol.page.getByRole('button', { name: 'Make the account' }).click();
    await carol.page.waitForURL('**/apps/of-bob');
    await carol.page.getByRole('link', { name: 'Cellar' }).click();
    await carol.page.getByRole('row', { name: /of-bob/ }).waitFor();
    assert.equal(await carol.page.getByRole('link', { name: 'New app' }).count(), 0, 'a guest owns none');
    await bob.page.reload();
    await bob.page.getByLabel('Role of Carol').waitFor();
    await bob.page.getByText('carol@example.com').waitFor();
    // The link can be used only once.
    carol.expect(/404/);
    await carol.page.goto(link);
    await carol.page.getByText('This link is no longer valid').waitFor();
  },
);

test('an invited person with an account signs in and accepts', NEEDS_CHROMIUM, async () => {
  const dora = await member('Dora');
  await dora.page.context().clearCookies();
  await bob.page.goto('/apps/of-bob/collaborators');
  const link = await invite('dora@example.com', 'view');
  await dora.page.goto(link);
  await dora.page.getByRole('link', { name: 'I have an account here' }).click();
  await dora.page.getByLabel('E-mail').fill('dora@example.com');
  await dora.page.getByLabel('Password').fill(PASSWORD);
  await dora.page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await dora.page.getByText('You are signed in as Dora, dora@example.com.').waitFor();
  assert.deepEqual(await dora.findings(), []);
  await dora.page.getByRole('button', { name: 'Accept' }).click();
  await dora.page.waitForURL('**/apps/of-bob');
  // The role view sees no form for invites.
  await dora.page.goto('/apps/of-bob/collaborators');
  await dora.page.getByText('dora@example.com').waitFor();
  const sections = dora.page.getByRole('navigation').getByRole('link');
  await eventually(
    async () => !(await sections.allInnerTexts()).includes('Storage'),
    'what needs more is left out',
  );
  const shown = await sections.allInnerTexts();
  for (const name of ['Variables', 'Users', 'Alerts']) assert.ok(!shown.includes(name), name);
  assert.ok(shown.includes('Logs'));
  assert.equal(await dora.page.getByRole('button', { name: 'Invite somebody' }).count(), 0);
});

test('a link in an e-mail resets a forgotten password', NEEDS_CHROMIUM, async () => {
  const { page } = await browser.person(originOf(cellar), { viewport: { width: 360, height: 740 } });
  await page.goto('/');
  await page.getByRole('button', { name: 'I forgot my password' }).click();
  await page.getByLabel('E-mail').fill('bob@example.com');
  await page.getByRole('button', { name: 'Send the link' }).click();
  await page.getByText('If an account here has the address bob@example.com').waitFor();
  await eventually(() => inbox.linksTo('bob@example.com').length === 1, 'the e-mail has come');
  await page.goto(inbox.linksTo('bob@example.com')[0]!);
  await page.getByLabel('Password').fill(`${PASSWORD}, again`);
  await page.getByRole('button', { name: 'Set the password' }).click();
  await page.getByRole('link', { name: 'of-bob' }).first().waitFor();
});

test('a second factor is shown as a QR code too', NEEDS_CHROMIUM, async () => {
  const { page } = await member('Erin');
  await page.goto('/account');
  await page.getByRole('button', { name: 'Set it up' }).click();
  await page.getByLabel('Your password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Go on' }).click();
  await page.getByRole('img', { name: 'The key for your authenticator app' }).locator('path[d^=M]').waitFor();
  browser.assertQuiet();
});

test('the account page says how to get passkeys in a browser without them', NEEDS_CHROMIUM, async () => {
  const { page } = await member('Fay');
  await page.addInitScript('delete window.PublicKeyCredential');
  await page.goto('/account');
  await page.getByText('To add one, open Cellar by HTTPS').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Add a passkey' }).count(), 0);
});

test('a screen asks the server for nothing more after a sign-out', NEEDS_CHROMIUM, async () => {
  const eve = await member('Eve');
  const { page } = eve;
  await page.goto('/');
  await page.getByRole('heading', { name: 'Apps', exact: true }).waitFor();
  const asked: (string | null)[] = [];
  page.on('request', (request) => asked.push(request.postData()));
  page.on('response', (response) => {
    if (response.url().endsWith('/sign-out')) asked.length = 0;
  });
  await page.getByRole('button', { name: 'Account of Eve' }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  // Files of the sign-in screen are requested without a body.
  assert.deepEqual(
    asked.filter((body) => body !== null),
    [],
  );
});
