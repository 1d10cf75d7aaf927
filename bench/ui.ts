// The control UI in a real Chromium: its first view from a cold cache, compared with a static page of the same size. Then the
// server's CPU time for idle tabs.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { descendants } from '../test/support/processes.ts';
import { becomeFirst, originOf } from '../test/support/ui/accounts.ts';
import { NEEDS_CHROMIUM, UiBrowser } from '../test/support/ui/browser.ts';
import { effort } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(9, 1);
const TABS = effort(100, 1);
const TABS_AT_ONCE = 10;
/** Times that a server is watched without a tab, and then with one in use. */
const PAIRS = effort(3, 1);
/** Duration of each watch, in ms. A whole minute includes the work that the server does once a minute. */
const WATCH_MS = effort(60_000, 500);
/** A used tab gets input at this interval, in ms. */
const INPUT_MS = effort(10_000, 100);
/** After this time without input, in ms, a page polls less often. */
const UNATTENDED_MS = effort(42_000, 0);
/** Maximum ratio of the time to content to the static page's. */
const TIME_TARGET = 2;
const BYTES_TARGET = 150 * 1024;
/** Maximum shares of a core, for one tab and for all of them. */
const TAB_TARGET = 0.002;
const TABS_TARGET = 0.02;
const TICK_MS = 10;

/** Prints times, bytes and CPU shares with their targets. */
export async function run(): Promise<void> {
  if (NEEDS_CHROMIUM.skip !== undefined) {
    console.log(NEEDS_CHROMIUM.skip);
    return;
  }
  await using cellar = await new Cellar().start();
  await cellar.deploy('hello', 'hello');
  await using browser = await UiBrowser.start();
  const origin = originOf(cellar);
  const ada = await browser.person(origin);
  await becomeFirst(ada, cellar);
  const storageState = await ada.page.context().storageState();
  await ada[Symbol.asyncDispose]();

  /** Opens a page with an empty cache. @returns the time until `selector` is visible, and the transferred bytes */
  const view = async (url: string, selector: string) => {
    await using person = await browser.person(origin, { storageState });
    let bytes = 0;
    const session = await person.page.context().newCDPSession(person.page);
    await session.send('Network.enable');
    session.on('Network.loadingFinished', ({ encodedDataLength }) => {
      bytes += encodedDataLength;
    });
    const begun = performance.now();
    await person.page.goto(url, { waitUntil: 'commit' });
    await person.page.locator(selector).first().waitFor();
    return { ms: performance.now() - begun, bytes };
  };
  const first = () => view(`${origin}/`, 'main h1');
  // The first visit starts the process of the control UI.
  const { bytes } = await first();
  await using page = await staticPage(bytes);
  const own: number[] = [];
  const plain: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    own.push((await first()).ms);
    plain.push((await view(page.url, 'h1')).ms);
  }
  const ratio = median(own) / median(plain);
  console.log(
    `first view ${median(own).toFixed(0)} ms, a static page of the same bytes ${median(plain).toFixed(0)} ms: ` +
      `${ratio.toFixed(2)} × (target ${TIME_TARGET}: ${met(ratio <= TIME_TARGET)})`,
  );
  console.log(`bytes ${bytes} (target ${BYTES_TARGET}: ${met(bytes <= BYTES_TARGET)})`);

  await using person = await browser.person(origin, { storageState });
  const context = person.page.context();
  const compare = (tabs: string, used: number, target: number) =>
    console.log(
      `${tabs}: ${(100 * used).toFixed(3)} % of a core (target ${100 * target}: ${met(used <= target)})`,
    );
  const show = async (page: Page) => {
    await page.goto('/');
    await page.locator('main table').waitFor();
  };
  const use = async () => {
    for (let past = 0; past < WATCH_MS; past += INPUT_MS) {
      await person.page.mouse.move(past / INPUT_MS, 400);
      await sleep(INPUT_MS);
    }
  };
  const without: number[] = [];
  const used: number[] = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    await person.page.goto('about:blank');
    without.push(await share(cellar.pid, () => sleep(WATCH_MS)));
    await show(person.page);
    used.push(await share(cellar.pid, use));
  }
  const quiet = median(without);
  console.log(`no tab: ${(100 * quiet).toFixed(3)} % of a core`);
  compare('one tab in use', median(used) - quiet, TAB_TARGET);
  // In one window: separate windows would take minutes to open, and gigabytes. Each tab considers itself visible.
  for (let tab = 1; tab < TABS; tab += TABS_AT_ONCE) {
    const more = Math.min(TABS_AT_ONCE, TABS - tab);
    await Promise.all(Array.from({ length: more }, async () => show(await context.newPage())));
  }
  await sleep(UNATTENDED_MS);
  // Each tab polls once a minute.
  compare(`${TABS} idle tabs`, (await share(cellar.pid, () => sleep(WATCH_MS))) - quiet, TABS_TARGET);
}

const met = (is: boolean) => (is ? 'met' : 'missed');

/** Returns the share of a core that a host and its processes use meanwhile. */
async function share(host: number, meanwhile: () => Promise<void>): Promise<number> {
  const before = cpuMs(host);
  const begun = performance.now();
  await meanwhile();
  return (cpuMs(host) - before) / (performance.now() - begun);
}

function cpuMs(host: number): number {
  return [host, ...descendants(host).map(({ pid }) => pid)].reduce((sum, pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
    return sum + (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  }, 0);
}

/** Serves a page and a script from memory, with this number of bytes in total. The script writes the heading. */
async function staticPage(bytes: number): Promise<AsyncDisposable & { url: string }> {
  const html = '<!doctype html><title>static</title><script src="/script.js" defer></script>';
  // Random, so that it does not compress.
  const padding = randomBytes(Math.max(0, bytes) * 0.75).toString('base64');
  const script = `document.body.append(Object.assign(document.createElement('h1'), { textContent: 'here' })); //${padding}`;
  const server = createServer((request, response) => {
    const isScript = request.url === '/script.js';
    response
      .writeHead(200, {
        'content-type': isScript ? 'text/javascript' : 'text/html',
        'cache-control': 'no-store',
      })
      .end(isScript ? script : html);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://localhost:${(server.address() as AddressInfo).port}/`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
