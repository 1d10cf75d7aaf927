// Every view of the control UI in a real Chromium, with data of pushed apps. Views have no errors, an empty console, no
// serious finding of axe in either theme, and no sideways scrolling on a small screen.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';
import { NEEDS_CHROMIUM, type Person, type UiBrowser } from '../support/ui/browser.ts';
import { SHOP } from '../support/ui/shop.ts';
import { startUi } from '../support/ui/start.ts';
import { acceptedRpcOf, makeShop, paths, settled, pathOf as viewPath, views } from '../support/ui/views.ts';

const cellar = new Cellar();
const rpc = acceptedRpcOf(cellar);
let browser: UiBrowser;
let ada: Person;
/** Values for the parameters in the views' paths. */
const params: Record<string, string> = {};
const pathOf = (name: string) => viewPath(name, params);

startUi(
  cellar,
  (person, started) => {
    ada = person;
    browser = started;
  },
  async () => {
    Object.assign(params, await makeShop(cellar));
  },
);

for (const name of views)
  test(`the view ${name} shows its data without errors, and is accessible`, NEEDS_CHROMIUM, async () => {
    const { page } = ada;
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
    await page.goto(pathOf(name));
    await settled(ada);
    assert.deepEqual(await page.locator('div.failed').allInnerTexts(), [], 'nothing failed');
    assert.deepEqual(await ada.findings(), [], 'in the light theme');
    await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' });
    assert.deepEqual(await ada.findings(), [], 'in the dark theme');
    await page.setViewportSize({ width: 360, height: 740 });
    await settled(ada);
    assert.deepEqual(await ada.overflowingElements(), [], 'it scrolls sideways at 360 px');
    await page.setViewportSize({ width: 3840, height: 800 });
    assert.deepEqual(await ada.overflowingElements(), [], 'it scrolls sideways at 3840 px');
    browser.assertQuiet();
  });

test('on a small screen the sections are a menu that scrolls to both ends', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.setViewportSize({ width: 360, height: 640 });
  await page.goto(pathOf('overview'));
  await settled(ada);
  await page.getByRole('button', { name: 'Menu', exact: true }).click();
  const top = async (element: string) => (await page.locator(element).first().boundingBox())!.y;
  const { height } = (await page.locator('.bar').boundingBox())!;
  assert.ok((await top('.nav h2')) >= height, 'its beginning is below the bar');
  await page.getByRole('navigation').getByRole('link', { name: 'Collaborators' }).click();
  await page.getByRole('heading', { name: 'Collaborators', level: 1 }).waitFor();
});

test('the longest possible app name fits on a small screen', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const app = 'w'.repeat(40);
  await cellar.create(app);
  await page.setViewportSize({ width: 360, height: 640 });
  for (const name of ['overview', 'settings', 'storage']) {
    await page.goto(paths.get(name)!.replace(':app', app));
    await settled(ada);
    assert.deepEqual(await ada.overflowingElements(), [], `${name} scrolls sideways`);
  }
  const { x, width } = (await page.locator('.crumbs [aria-current]').boundingBox())!;
  const find = (await page.locator('.find').boundingBox())!;
  assert.ok(width > 20 && x + width <= find.x, 'where one is can be read');
  await page.goto(paths.get('settings')!.replace(':app', app));
  await page.getByRole('button', { name: `Delete ${app}` }).click();
  await page.getByRole('dialog').waitFor();
  assert.deepEqual(await ada.overflowingElements(), [], 'the question scrolls sideways');
});

test(
  'maintenance is turned on with an own page, is shown everywhere, and is turned off',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(pathOf('settings'));
    await settled(ada);
    const panel = page.getByRole('region', { name: 'Maintenance' });
    await panel.getByLabel('Page').fill('<h1>Back at noon</h1>');
    await panel.getByRole('button', { name: 'Turn maintenance on' }).press('Enter');
    // Until then the panel's text begins with "While maintenance is on".
    await panel.getByText('Maintenance is on: visitors').waitFor();
    assert.equal(
      (await cellar.get(SHOP, '/', { headers: { accept: 'text/html' } })).text,
      '<h1>Back at noon</h1>',
    );
    assert.deepEqual(await ada.findings(), []);
    await page.setViewportSize({ width: 360, height: 740 });
    assert.deepEqual(await ada.overflowingElements(), [], 'it scrolls sideways at 360 px');
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto('/');
    await page.getByRole('row').filter({ hasText: SHOP }).getByText('maintenance', { exact: true }).waitFor();
    assert.deepEqual(await ada.findings(), []);
    await page.goto(pathOf('overview'));
    await page.getByText('Maintenance is on').waitFor();
    assert.deepEqual(await ada.findings(), []);
    await page.getByRole('link', { name: 'Turn it off in the settings' }).press('Enter');
    await panel.getByRole('button', { name: 'Turn maintenance off' }).press('Enter');
    await panel.getByRole('button', { name: 'Turn maintenance on' }).waitFor();
    assert.equal(await panel.getByLabel('Page').inputValue(), '<h1>Back at noon</h1>');
    assert.equal((await cellar.get(SHOP)).status, 200);
    browser.assertQuiet();
  },
);

test('a failed action without a connection does not claim to be retried', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(pathOf('settings'));
  await settled(ada);
  ada.expect(/ERR_/);
  await page.route('**/rpc', (route) => route.abort());
  await page.getByRole('button', { name: 'Put it to sleep' }).click();
  await page.getByText('Try again when the connection is back.').waitFor();
  await page.unroute('**/rpc');
});

test('a closed dialog returns the focus to the element that opened it', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(pathOf('variables'));
  await settled(ada);
  const opener = page.getByRole('button', { name: 'Add build variables' });
  for (const close of ['Escape', 'Cancel']) {
    await opener.press('Enter');
    const dialog = page.getByRole('dialog');
    await dialog.waitFor();
    if (close === 'Escape') await page.keyboard.press('Escape');
    else await dialog.getByRole('button', { name: close }).click();
    await dialog.waitFor({ state: 'detached' });
    // The focus moves a moment after the dialog has closed.
    await opener.and(page.locator(':focus')).waitFor();
  }
});

test('the finder finds the storage of an app by name', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(pathOf('overview'));
  await settled(ada);
  for (const [typed, found, heading] of [
    ['bucket', `Bucket ${params.bucket}`, params.bucket],
    ['workflow', `Workflow ${params.workflow}`, params.workflow],
  ] as const) {
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog', { name: 'Find' }).waitFor();
    await page.keyboard.type(typed);
    await page.getByRole('option', { name: found, selected: true }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: heading!, level: 1 }).waitFor();
  }
});

test(
  'a slow request is found by its filters, and its trace shows what it waited for',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(pathOf('traffic'));
    await page.getByRole('region', { name: 'Paths' }).getByRole('link', { name: '/fill' }).click();
    await page.getByRole('heading', { name: 'Requests', level: 1 }).waitFor();
    assert.equal(new URL(page.url()).searchParams.get('path'), '/fill');
    const row = page.getByRole('row').filter({ hasText: 'GET /fill' });
    await row.first().waitFor();
    await page.getByRole('searchbox').fill('/nothing like it');
    await page.getByText('No request of the last 24 hours matches').waitFor();
    await page.getByRole('button', { name: 'Show all requests' }).press('Enter');
    await page.getByRole('row').filter({ hasText: 'GET /slow' }).waitFor();
    await page.getByLabel('Duration').selectOption('1000');
    await row.first().waitFor({ state: 'detached' });
    await page.getByRole('row').filter({ hasText: 'GET /slow' }).waitFor();
    await page.getByRole('group', { name: 'Status' }).getByText('5xx').press('Enter');
    await page.getByText('No request of the last 24 hours matches').waitFor();
    await page.goto('/apps/shop/requests?path=/fill&status=2xx');
    await page.getByRole('link', { name: 'GET /fill' }).last().press('Enter');
    const waits = page.getByRole('table', { name: 'What the request waited for' });
    await waits.getByText('DB.exec').first().waitFor();
    await waits.getByText(/^CREATE TABLE orders/).waitFor();
    assert.deepEqual(await ada.findings(), []);
    await page.setViewportSize({ width: 360, height: 740 });
    assert.deepEqual(await ada.overflowingElements(), [], 'it scrolls sideways at 360 px');
    browser.assertQuiet();
  },
);

test(
  'the data of the overview takes less than 20 KB, and its chart has a legend of its marks',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.setViewportSize({ width: 1280, height: 800 });
    const network = await page.context().newCDPSession(page);
    await network.send('Network.enable');
    const calls = new Set<string>();
    let bytes = 0;
    network.on('Network.requestWillBeSent', ({ requestId, request }) => {
      if (request.url.endsWith('/rpc')) calls.add(requestId);
    });
    network.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      if (calls.has(requestId)) bytes += encodedDataLength;
    });
    await page.goto(pathOf('overview'));
    await settled(ada);
    await page.locator('.u-over').waitFor();
    await page.locator('.legend').getByText('Deploy', { exact: true }).waitFor();
    assert.ok(bytes > 3_000 && bytes < 20_000, `${bytes} bytes`);
    await page.getByLabel('Range').getByRole('button', { name: '1h', pressed: true }).waitFor();
    await network.detach();
  },
);

test('back returns to the last view, and without a connection its data stays', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto(pathOf('overview'));
  const heading = (name: string) => page.getByRole('heading', { name, level: 1, exact: true }).waitFor();
  await heading(SHOP);
  const sections = page.getByRole('navigation', { name: 'Sections' });
  await sections.getByRole('link', { name: 'Deploys' }).click();
  await heading('Deploys');
  await page.getByRole('link', { name: 'change 1', exact: true }).click();
  await heading('change 1');
  await page.goBack();
  await heading('Deploys');
  await page.goBack();
  await heading(SHOP);

  const figure = page.getByRole('button', { name: /^Requests/ });
  await figure.waitFor();
  ada.expect(/ERR_INTERNET_DISCONNECTED/);
  await page.context().setOffline(true);
  await page.getByLabel('Range').getByText('1h', { exact: true }).click();
  await page.getByText(/^No connection for/).waitFor();
  assert.ok(await figure.isVisible());
  await sections.getByRole('link', { name: 'Events' }).click();
  await page.getByRole('heading', { name: 'No connection' }).waitFor();
  await page.context().setOffline(false);
  await page.getByText('Ordered').waitFor();
  await page.getByText(/^No connection for/).waitFor({ state: 'detached' });
  browser.assertQuiet();
});

test(
  'the views change their data: rows, keys, variables, errors, the state of an app',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    const id = SHOP;
    const button = (name: string) => page.getByRole('button', { name, exact: true });
    const dialog = page.getByRole('dialog');
    await page.setViewportSize({ width: 1280, height: 800 });

    await page.goto(pathOf('database'));
    await button('Add a row').click();
    await dialog.getByLabel('customer').fill('Barbara');
    await dialog.getByLabel('total').fill('7.5');
    await dialog.getByRole('button', { name: 'Add it to the changes' }).click();
    await button('Write 1 change').click();
    await page.getByText('1 row written').waitFor();
    await button('SQL console').click();
    await page
      .getByPlaceholder(/^SELECT/)
      .fill("SELECT total AS paid FROM orders WHERE customer = 'Barbara'");
    await page.keyboard.press('Control+Enter');
    await page.getByRole('status').getByText('7.5', { exact: true }).first().waitFor();

    await page.goto(pathOf('namespace'));
    await button('Add a key').click();
    await dialog.getByLabel('Key', { exact: true }).fill('cart:grace');
    await dialog.getByLabel('Value', { exact: true }).fill('none yet');
    await button('Add the key').click();
    await page.getByText('cart:grace is written').waitFor();
    const { value_base64 } = await rpc('storage.kv.get', {
      id,
      namespace_id: params.namespace,
      key: 'cart:grace',
    });
    assert.equal(Buffer.from(value_base64, 'base64').toString(), 'none yet');

    await page.goto(pathOf('variables'));
    await button('Delete GREETING').click();
    await page.getByText('GREETING is deleted').waitFor();
    await button('Undo').click();
    const greeting = page.getByRole('cell', { name: 'GREETING', exact: true });
    await greeting.waitFor();
    // A variable that is added again ends the time in which its removal can be undone.
    await button('Delete GREETING').click();
    await greeting.waitFor({ state: 'detached' });
    await button('Add build variables').click();
    await dialog.getByLabel('Name', { exact: true }).fill('GREETING');
    await dialog.getByLabel('Value', { exact: true }).fill('Good evening');
    await button('Add').click();
    await greeting.waitFor();
    assert.equal(await button('Undo').count(), 0);
    await button('Add build variables').click();
    await dialog.getByLabel('Name', { exact: true }).fill('REGION');
    await dialog.getByLabel('Value', { exact: true }).fill('eu');
    await button('Add').click();
    await page.getByRole('cell', { name: 'REGION', exact: true }).waitFor();

    // The list is live: its counts change without a reload.
    await page.goto(pathOf('errors'));
    const times = page.locator('tbody td.number span[title]').first();
    await times.waitFor();
    const counted = Number(await times.getAttribute('title'));
    await eventually(async () => {
      await cellar.get(SHOP, '/broken');
      return Number(await times.getAttribute('title')) > counted;
    }, 'one more is counted');
    await page.goto(pathOf('error'));
    await button('Resolve').click();
    await page.getByText('resolved', { exact: true }).waitFor();
    assert.equal((await rpc('errors.list', { id, status: 'resolved' })).items.length, 1);

    await page.goto(pathOf('settings'));
    await button('Stop the app').click();
    await dialog.getByRole('button', { name: 'Stop the app' }).click();
    await button('Start the app').click();
    await button('Put it to sleep').click();
    await button('Wake it').waitFor();
    assert.equal((await rpc('apps.get', { id })).status, 'sleeping');
    await button('Wake it').click();
    await button('Put it to sleep').waitFor();

    await page.goto(pathOf('snapshots'));
    await button('Take a snapshot').click();
    await page.getByText(/^The snapshot is taken/).waitFor();
    await button('Restore').first().click();
    await dialog.getByLabel('App').selectOption(SHOP);
    await button('Show changes').click();
    await dialog.getByRole('list', { name: 'What would change' }).waitFor();
    browser.assertQuiet();
  },
);

test('an app is made from a template, and deleted after its name was typed', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/new');
  await page.getByLabel('Name', { exact: true }).fill('templated');
  await page.getByRole('button', { name: 'Make the app' }).click();
  await page.getByRole('button', { name: 'Use Hello Worker' }).click();
  await page.locator('.screen-head').getByText('live', { exact: true }).waitFor();
  assert.equal((await cellar.get('templated')).status, 200);
  await page.goto('/apps/templated/settings');
  await page.getByRole('button', { name: 'Delete templated' }).click();
  const dialog = page.getByRole('dialog');
  const remove = dialog.getByRole('button', { name: 'Delete the app' });
  assert.equal(await remove.isEnabled(), false);
  await dialog.getByLabel('Type templated to delete it').fill('templated');
  await remove.click();
  await page.getByText('templated is deleted').waitFor();
  assert.equal((await cellar.get('templated')).status, 404);
  browser.assertQuiet();
});

// This test is the last, because the promoted release has none of the data that the views show.
test(
  'a preview shows its log, is promoted and deleted, and the settings switch previews off',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.goto(pathOf('deploys'));
    const row = page.getByRole('listitem').filter({ hasText: 'feature-login' });
    assert.match(
      (await row.getByRole('link', { name: 'feature-login' }).getAttribute('href'))!,
      /^http:\/\/feature-login--shop\.localhost/,
    );
    await row.getByRole('link', { name: 'Log', exact: true }).click();
    await page.getByText('The log of the preview feature-login').waitFor();
    await page.getByRole('button', { name: "The app's" }).click();
    await page.waitForURL(/\/logs$/);
    await page.goto(pathOf('deploys'));
    await row.getByRole('button', { name: 'Build' }).click();
    await page.getByRole('dialog').getByText('▸ start: the first release').waitFor();
    await page.keyboard.press('Escape');
    await row.getByRole('button', { name: 'Promote' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Promote the preview' }).click();
    await page.waitForURL(/\/deploys\/[0-9a-z]{16}$/);
    await eventually(
      async () => (await rpc('deploys.list', { id: SHOP })).items[0].status === 'live',
      'it serves',
    );
    assert.equal((await rpc('deploys.list', { id: SHOP })).items[0].trigger, 'promote');
    await page.goto(pathOf('deploys'));
    await row.getByRole('button', { name: 'Delete' }).click();
    await row.waitFor({ state: 'detached' });
    await page.goto(pathOf('settings'));
    await page.getByLabel('A push to another branch than main').uncheck();
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await eventually(async () => !(await rpc('previews.get', { id: SHOP })).branches, 'it is off');
  },
);
