// The UI for several hosts, in a real Chromium: their state and apps, draining, moving an app, and a lost host.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Hosts, type TestHost } from '../support/hosts/hosts.ts';
import { eventually } from '../support/processes.ts';
import { accept, becomeFirst, originOf } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from '../support/ui/browser.ts';
import { acceptedRpcOf, settled } from '../support/ui/views.ts';

let hosts: Hosts;
let rpc: ReturnType<typeof acceptedRpcOf>;
let browser: UiBrowser;
let ada: Person;
/** The host whose UI people use, and the other one. */
let [one, two]: TestHost[] = [];

before(async () => {
  if (NEEDS_CHROMIUM.skip !== undefined) return;
  hosts = await Hosts.start(2);
  [one, two] = hosts.all as [TestHost, TestHost];
  rpc = acceptedRpcOf(one);
  await rpc('apps.create', { slug: 'shop', storage: 'bucket' });
  browser = await UiBrowser.start();
  ada = await browser.person(originOf(one));
  await becomeFirst(ada, one);
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await hosts?.[Symbol.asyncDispose]();
});

/** Finds the row of a host by its address, because both hosts have the same name. */
const rowOf = ({ address }: TestHost) =>
  ada.page.getByRole('table', { name: 'Hosts' }).getByRole('row').filter({ hasText: address });

const homeOf = async (slug: string) => (await rpc('apps.get', { id: slug })).home.id as string;

test(
  'the hosts are shown with their load and their apps, and fit on each screen',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    await page.goto('/machine');
    await page.getByRole('navigation', { name: 'Sections' }).getByRole('link', { name: 'Hosts' }).click();
    await page.getByRole('heading', { name: 'Hosts', level: 1 }).waitFor();
    await settled(ada);
    for (const host of [one!, two!]) {
      await rowOf(host).getByText('active').waitFor();
      assert.equal(await rowOf(host).locator('meter').count(), 3);
    }
    const home = await homeOf('shop');
    const { items } = await rpc('hosts.list', {});
    const { address } = items.find(({ id }: { id: string }) => id === home);
    await rowOf(hosts.all.find((host) => host.address === address)!)
      .getByRole('link')
      .click();
    await page
      .getByRole('table', { name: /^Apps of/ })
      .getByRole('link', { name: 'shop' })
      .waitFor();
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      assert.deepEqual(await ada.findings(), [], colorScheme);
    }
    for (const width of [360, 1280, 3840]) {
      await page.setViewportSize({ width, height: 800 });
      assert.deepEqual(await ada.overflowingElements(), [], `it scrolls sideways at ${width} px`);
    }
    await page.setViewportSize({ width: 1280, height: 800 });
    browser.assertQuiet();
  },
);

test('an admin of the machine moves an app to the other host', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  const before = await homeOf('shop');
  await page.goto('/apps/shop/settings');
  await settled(ada);
  await page.getByLabel('Another host').selectOption({ index: 1 });
  assert.deepEqual(await ada.findings(), []);
  await page.getByRole('button', { name: 'Move the app' }).click();
  await page.getByText(/^shop runs on .+ now$/).waitFor();
  assert.notEqual(await homeOf('shop'), before);
});

test('others see where their app runs, and no hosts', NEEDS_CHROMIUM, async () => {
  const { id } = await rpc('apps.get', { id: 'shop' });
  const { url } = await rpc('invites.create', { app: { id, role: 'admin' } });
  await using bob = await browser.person(originOf(one!));
  await accept(bob, one!, new URL(url).searchParams.get('token')!, 'Bob');
  await bob.page.goto('/apps/shop/settings');
  await bob.page.getByText('Administrators of the machine can move it to another host.').waitFor();
  await bob.page.goto('/machine/hosts');
  await bob.page.getByRole('heading', { name: 'This is for administrators of the machine' }).waitFor();
  assert.deepEqual(bob.errors, []);
});

test('a host is drained, and gets apps again', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await page.goto('/machine/hosts');
  await rowOf(two!).getByRole('button', { name: 'Drain' }).click();
  await rowOf(two!).getByText('draining').waitFor();
  assert.ok(await rowOf(one!).getByRole('button', { name: 'Drain' }).isDisabled(), 'no other host is active');
  await rowOf(two!).getByRole('button', { name: 'Undo' }).click();
  await rowOf(two!).getByText('active').waitFor();
  browser.assertQuiet();
});

test('a lost host is shown as silent, warned of, and can be removed', NEEDS_CHROMIUM, async () => {
  const { page } = ada;
  await two!.stop('SIGKILL');
  // Calls of the control plane may fail while its database moves to the other host.
  ada.expect(/status of 50/);
  await rowOf(two!).getByText('silent', { exact: true }).waitFor();
  await page.getByText(/does not report\. Its apps in the bucket run on other hosts\./).waitFor();
  const ready = async () => (await one!.call('GET', '/ready')).body;
  await eventually(async () => (await ready()).warnings?.includes('hosts'), '`/ready` warns');
  await page.clock.install();
  await rowOf(two!)
    .getByRole('button', { name: /^Remove/ })
    .click();
  await rowOf(two!).waitFor({ state: 'detached' });
  await page.clock.fastForward(11_000);
  await eventually(async () => (await rpc('hosts.list', {})).items.length === 1, 'it is removed');
});
