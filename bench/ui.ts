// The control UI in a real Chromium: its first view from a cold cache beside a static page of the same bytes, and what tabs
// that nobody uses cost the server.
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { descendants } from '../test/support/e2e/processes.ts';
import { becomeFirst, originOf } from '../test/support/ui/accounts.ts';
import { NEEDS_CHROMIUM, UiBrowser } from '../test/support/ui/browser.ts';
import { effort } from './effort.ts';
import { median } from './figures.ts';

const ROUNDS = effort(15, 1);
const TABS = effort(100, 1);
const TABS_AT_ONCE = 10;
const IDLE_MS = effort(40_000, 1_000);
/** After so long, in ms, a page that nobody touches reads less often. */
const UNATTENDED_MS = effort(75_000, 0);
/** Time to content against the static page's. */
const TIME_TARGET = 2;
const BYTES_TARGET = 150 * 1024;
/** Shares of a core, for one tab and for all of them. */
const TAB_TARGET = 0.002;
const TABS_TARGET = 0.02;
const TICK_MS = 10;

/** Prints times, bytes and shares of a core with their targets. */
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

  /** Opens a page with an empty cache: how long it took to show `selector`, and the bytes that came. */
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
  // The process of the control UI is started for the first of all visits.
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

  const quiet = await share(cellar.pid);
  for (const [count, target] of [
    [1, TAB_TARGET],
    [TABS, TABS_TARGET],
  ] as const) {
    await using person = await browser.person(origin, { storageState });
    const context = person.page.context();
    // All of one window: as many windows would take minutes to open, and gigabytes. Each of them is shown, as far as it knows.
    for (let tab = 0; tab < count; tab += TABS_AT_ONCE) {
      const more = Array.from({ length: Math.min(TABS_AT_ONCE, count - tab) }, async () => {
        const page = await context.newPage();
        await page.goto('/');
        await page.locator('main h1').waitFor();
      });
      await Promise.all(more);
    }
    const watched = (await share(cellar.pid)) - quiet;
    console.log(`${count} tabs that were just used: ${(100 * watched).toFixed(2)} % of a core`);
    await sleep(UNATTENDED_MS);
    const used = (await share(cellar.pid)) - quiet;
    console.log(
      `${count} idle tabs: ${(100 * used).toFixed(2)} % of a core (target ${100 * target}: ${met(used <= target)})`,
    );
  }
}

const met = (is: boolean) => (is ? 'met' : 'missed');

/** The share of a core that a host and its processes use, over `IDLE_MS`. */
async function share(host: number): Promise<number> {
  const before = cpuMs(host);
  await sleep(IDLE_MS);
  return (cpuMs(host) - before) / IDLE_MS;
}

function cpuMs(host: number): number {
  return [host, ...descendants(host).map(({ pid }) => pid)].reduce((sum, pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
    return sum + (Number(fields[11]) + Number(fields[12])) * TICK_MS;
  }, 0);
}

/** A page and a script of so many bytes in all, from the memory of this process. The script writes the heading. */
async function staticPage(bytes: number): Promise<AsyncDisposable & { url: string }> {
  const html = '<!doctype html><title>static</title><script src="/script.js" defer></script>';
  // It cannot be packed any smaller.
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
