// Typing in the control UI, in a real Chromium. Text triggers no shortcut, and unsaved text is lost only after a question.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator } from 'playwright-core';
import { Cellar } from '../support/e2e/cellar.ts';
import { PASSWORD } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person } from '../support/ui/browser.ts';
import { startUi } from '../support/ui/start.ts';
import { makeShop, pathOf, settled, views } from '../support/ui/views.ts';

/** Contains the keys of all shortcuts. */
const PARAGRAPH = 'jog / g e? g d go: k';

const cellar = new Cellar();
let ada: Person;
let params: Record<string, string>;
const path = (view: string, more: Record<string, string> = {}) => pathOf(view, { ...params, ...more });

startUi(
  cellar,
  (person) => {
    ada = person;
  },
  async () => {
    params = await makeShop(cellar);
  },
);

/** Selector of fields for any text, also in open shadow roots. */
const FIELDS = ['text', 'search', 'email', 'url', 'password']
  .map((type) => `main input[type=${type}]`)
  .concat('main input:not([type])', 'main textarea', 'main [contenteditable=true]')
  .join(', ');

function textIn(field: Locator): Promise<string> {
  return field.evaluate((element) => ('value' in element ? String(element.value) : element.textContent));
}

/** Types into all fields of a view, after the field `name` is there. @returns the number of fields */
async function typeEverywhere(at: string, name?: string): Promise<number> {
  const { page } = ada;
  await page.goto(at);
  await settled(ada);
  if (name !== undefined) await page.getByRole('textbox', { name }).waitFor();
  const { pathname } = new URL(page.url());
  const fields = page.locator(FIELDS).filter({ visible: true });
  const count = await fields.count();
  for (let i = 0; i < count; i++) {
    const field = fields.nth(i);
    if (!(await field.isEnabled())) continue;
    const where = `the field ${i} of ${at}`;
    await field.focus();
    await page.keyboard.press('Control+A');
    await page.keyboard.type(PARAGRAPH);
    assert.equal(new URL(page.url()).pathname, pathname, `${where} leads elsewhere`);
    assert.equal(await page.locator('dialog[open]').count(), 0, `${where} opens a window`);
    // A field for a slug turns spaces into dashes.
    assert.equal((await textIn(field)).replaceAll('-', ' '), PARAGRAPH, `${where} holds the text`);
  }
  return count;
}

test('text in any field of any view triggers no shortcut', NEEDS_CHROMIUM, async () => {
  let count = 0;
  for (const view of views) count += await typeEverywhere(path(view));
  assert.ok(count > 20, `${count} fields were found`);
});

test('typing into a filter leaves no stream open', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto(path('events'));
  await settled(ada);
  await page.getByPlaceholder('Of one user: its id').focus();
  await page.keyboard.type('u-'.repeat(50));
  // A browser opens at most six connections to a server: leaked streams would use all of them.
  await page.goto(path('users'));
  await settled(ada);
});

test('text in the source editor triggers no shortcut', NEEDS_CHROMIUM, async () => {
  const at = path('source', { path: 'main.ts' });
  assert.equal(await typeEverywhere(at, 'main.ts'), 2);
});

test('keys for an input method choose nothing and close nothing', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto(path('overview'));
  await settled(ada);
  await page.keyboard.press('/');
  const field = page.getByRole('combobox', { name: 'Find an app' });
  await field.waitFor();
  const session = await page.context().newCDPSession(page);
  const text = 'shop';
  await ada.evaluate(
    "self.keys = []; addEventListener('keydown', ({ key, isComposing }) => self.keys.push(key + ' ' + isComposing), true)",
  );
  await session.send('Input.imeSetComposition', { text, selectionStart: 4, selectionEnd: 4 });
  const press = (key: string) =>
    session.send('Input.dispatchKeyEvent', {
      type: 'rawKeyDown',
      key,
      code: key,
      windowsVirtualKeyCode: 229,
    });
  const { pathname } = new URL(page.url());
  for (const key of ['Enter', 'Escape', 'ArrowDown']) await press(key);
  assert.deepEqual(await ada.evaluate('self.keys'), ['Enter true', 'Escape true', 'ArrowDown true']);
  assert.deepEqual([new URL(page.url()).pathname, await field.inputValue()], [pathname, text]);
  await session.send('Input.insertText', { text: 'shop' });
  await session.detach();
  await page.keyboard.press('Enter');
  await field.waitFor({ state: 'detached' });
});

/** Answers dialogs of the page. @returns a function that asserts the kinds of dialogs since its last call */
function answering(accept: () => boolean): (kinds: string[], when: string) => void {
  const asked: string[] = [];
  ada.page.on('dialog', (dialog) => {
    asked.push(dialog.type());
    void (accept() ? dialog.accept() : dialog.dismiss());
  });
  return (kinds, when) => assert.deepEqual(asked.splice(0), kinds, when);
}

test(
  'unsaved edits of rows and SQL statements stay while the person visits other views',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    page.removeAllListeners('dialog');
    await page.goto(path('database'));
    await settled(ada);
    let accepts = false;
    const assertAsked = answering(() => accepts);
    const button = (name: string | RegExp) => page.getByRole('button', { name, exact: true });
    const table = button(/^orders/);
    await page.getByRole('gridcell', { name: 'Ada', exact: true }).dblclick();
    await page.locator('input:focus, textarea:focus').waitFor();
    await page.keyboard.type('Lovelace g d /');
    await page.keyboard.press('Enter');
    const isKept = async (when: string) => {
      await button('Write 1 change').waitFor();
      await page.getByRole('gridcell', { name: 'Lovelace g d /', exact: true }).waitFor();
      assertAsked([], when);
    };
    await isKept('at once');
    await page.getByLabel('Only rows where').fill('id < 3');
    await button('Filter').click();
    await page.getByText('2 rows').waitFor();
    await isKept('after a filter');
    await button(/^customer/).click();
    await page.locator('th[aria-sort=ascending]').waitFor();
    await isKept('in another order');
    await button('SQL console').click();
    const statement = page.getByPlaceholder(/^SELECT/);
    await statement.fill('SELECT 1 / 2');
    await page.getByText('1 to write').waitFor();
    await table.click();
    await isKept('after another table');
    await button('SQL console').click();
    assert.equal(await statement.inputValue(), 'SELECT 1 / 2');
    await page.getByRole('navigation', { name: 'Sections' }).getByRole('link', { name: 'Deploys' }).click();
    await page.getByRole('heading', { name: 'Deploys', level: 1 }).waitFor();
    await page.goBack();
    assert.equal(await statement.inputValue(), 'SELECT 1 / 2');
    await table.click();
    await isKept('after another screen');
    await Promise.all([page.waitForEvent('dialog'), page.reload({ timeout: 2_000 }).catch(() => {})]);
    assertAsked(['beforeunload'], 'before the page goes');
    await isKept('after a page that was not left');
    await button('Write 1 change').click();
    await page.getByText('1 row written').waitFor();
    await button('SQL console').click();
    await statement.fill('');
    await page.reload();
    assertAsked([], 'with all of it written');
    accepts = true;
  },
);

test('an open editor stays in its row when rows are written above it', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const answer = Promise.withResolvers<void>();
  const { promise: sent, resolve: isSent } = Promise.withResolvers<void>();
  await page.route('**/rpc', async (route) => {
    if (route.request().postDataJSON().method === 'storage.d1.write') {
      isSent();
      await answer.promise;
    }
    await route.continue();
  });
  await page.goto(path('database'));
  await settled(ada);
  await page.getByRole('button', { name: 'Add a row' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('id · integer').fill('-1');
  await dialog.getByLabel('customer').fill('First');
  await dialog.getByRole('button', { name: 'Add it to the changes' }).click();
  await page.getByRole('button', { name: 'Write 1 change' }).click();
  await sent;
  await page.getByRole('gridcell', { name: 'Grace', exact: true }).dblclick();
  await page.locator('textarea:focus').waitFor();
  await page.keyboard.type('Hop');
  answer.resolve();
  await page.getByRole('gridcell', { name: 'First', exact: true }).waitFor();
  await page.keyboard.type('per');
  await page.keyboard.press('Enter');
  const row = page.getByRole('row').filter({ hasText: 'Hopper' });
  assert.equal(await row.getByRole('gridcell').first().textContent(), '2');
  assert.equal(await page.getByRole('gridcell', { name: 'Grace', exact: true }).count(), 0);
  await page.unroute('**/rpc');
  await page.getByRole('button', { name: 'Drop the changes' }).click();
});

test('a form with unsaved text asks before it closes', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  page.removeAllListeners('dialog');
  await page.goto(path('variables'));
  await settled(ada);
  let accepts = false;
  const assertAsked = answering(() => accepts);
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Add build variables' }).click();
  await dialog.getByLabel('Value', { exact: true }).fill('a long text');
  for (const time of ['first', 'second', 'third']) {
    await page.keyboard.press('Escape');
    assertAsked(['confirm'], `at the ${time} Escape`);
  }
  await page.mouse.click(5, 5);
  assertAsked(['confirm'], 'at a click outside');
  assert.equal(await dialog.getByLabel('Value', { exact: true }).inputValue(), 'a long text');
  accepts = true;
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assertAsked(['confirm'], 'and it goes');
  accepts = false;

  const sections = page.getByRole('navigation', { name: 'Sections' });
  const heading = (name: string) => page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
  await sections.getByRole('link', { name: 'General' }).click();
  await heading('Settings');
  const field = page.getByLabel('Build command');
  await field.fill('npm run make');
  await sections.getByRole('link', { name: 'Deploys' }).click();
  assertAsked(['confirm'], 'at a link');
  await Promise.all([page.waitForEvent('dialog'), page.evaluate('history.back()')]);
  assertAsked(['confirm'], 'at a step back');
  await field.blur();
  await page.keyboard.type('gd');
  assertAsked(['confirm'], 'at a shortcut');
  await Promise.all([page.waitForEvent('dialog'), page.reload({ timeout: 2_000 }).catch(() => {})]);
  assertAsked(['beforeunload'], 'before the page goes');
  assert.match(page.url(), /settings$/);
  assert.equal(await field.inputValue(), 'npm run make');
  await page.getByRole('button', { name: 'Set how it is built' }).click();
  await page.getByText('The next deploy is built this way').waitFor();
  await sections.getByRole('link', { name: 'Deploys' }).click();
  await heading('Deploys');
  await page.goBack();
  await heading('Settings');
  await page.goBack();
  await heading('Variables and secrets');
  assertAsked([], 'of saved text');
});

test(
  'an error of the API about a field is shown at the field, which gets the focus',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    page.removeAllListeners('dialog');
    ada.expect(/status of 400/);
    const button = (name: string) => page.getByRole('button', { name, exact: true });
    const isRefused = async (field: Locator, words: RegExp) => {
      await page.getByRole('alert').getByText(words).waitFor();
      assert.equal(await field.getAttribute('aria-invalid'), 'true');
      await field.and(page.locator(':focus')).waitFor();
      assert.equal(await page.locator('.toast').count(), 0, 'it is said once');
    };
    await page.goto(path('domains'));
    const hostname = page.getByLabel('Hostname');
    await hostname.fill('no host name');
    await button('Add this domain').click();
    await isRefused(hostname, /^Must be a hostname such as shop\.example\.com\.$/);
    await hostname.fill('https://Pasted.example.com:8443/path');
    assert.equal(await page.getByRole('alert').count(), 0, 'it goes with the next change');
    await button('Add this domain').click();
    await page.getByText('pasted.example.com answers on this machine').waitFor();

    await page.goto(path('settings'));
    const root = page.getByLabel('Root directory');
    await root.fill('../elsewhere');
    await button('Set how it is built').click();
    await isRefused(root, /./);

    await page.goto(path('alerts'));
    await button('Add an alert').first().click();
    const address = page.getByLabel('Webhook or e-mail address');
    await address.fill('ftp://example.com');
    const kinds = page.getByRole('dialog').getByRole('checkbox');
    assert.equal(await kinds.count(), 12, 'this machine has no bucket, and no other hosts');
    await kinds.first().check();
    await button('Add the alert').click();
    await isRefused(address, /./);
  },
);

test('a session that ends keeps typed text below a sign-in', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  page.removeAllListeners('dialog');
  ada.expect(/status of 401/);
  await page.goto(path('variables'));
  await settled(ada);
  await page.getByRole('button', { name: 'Add build variables' }).click();
  const form = page.getByRole('dialog', { name: 'Add build variables' });
  await form.getByLabel('Name').fill('LONG');
  await form.getByLabel('Value', { exact: true }).fill('a long text');
  await page.context().clearCookies();
  const add = form.getByRole('button', { name: 'Add', exact: true });
  await add.click();
  const signIn = page.getByRole('dialog', { name: 'Sign in again' });
  await signIn.getByText('What you typed is kept here').waitFor();
  await signIn.getByLabel('E-mail').and(page.locator(':focus')).waitFor();
  // Focus is also lost when another step replaces the focused button.
  await ada.evaluate('document.activeElement.blur()');
  for (let times = 0; times < 3; times++) await page.keyboard.press('Escape');
  await page.keyboard.press('Control+K');
  assert.equal(await page.locator('dialog[open]').count(), 2, 'the sign-in stays, and is on top');
  // On a phone, the back gesture closes the dialog like this.
  await ada.evaluate("document.querySelector('dialog.again').close()");
  await signIn.waitFor();
  assert.deepEqual(await ada.findings(), []);
  await signIn.getByLabel('E-mail').fill('ada@example.com');
  await signIn.getByLabel('Password').fill(PASSWORD);
  await signIn.getByRole('button', { name: 'Sign in', exact: true }).click();
  await signIn.waitFor({ state: 'detached' });
  assert.equal(await form.getByLabel('Value', { exact: true }).inputValue(), 'a long text');
  await add.click();
  await form.waitFor({ state: 'detached' });
  await page.getByRole('cell', { name: 'LONG', exact: true }).waitFor();
});

test('a key is copied from its window without the clipboard API', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/account');
  await settled(ada);
  await ada.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })");
  const make = page.getByRole('button', { name: 'Make a key', exact: true });
  await make.click();
  await page.getByRole('button', { name: 'Make the key' }).click();
  const key = await page.getByRole('dialog').locator('pre').textContent();
  await page.getByRole('button', { name: 'Copy the key' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  await page.getByRole('button', { name: 'I have kept it' }).click();
  await make.click();
  const field = page.getByLabel('What it is for');
  await field.focus();
  await page.keyboard.press('Control+A');
  await page.keyboard.press('Control+V');
  assert.equal(await field.inputValue(), key);
});
