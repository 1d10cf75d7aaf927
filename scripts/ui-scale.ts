// Tests the control UI with much data: `node scripts/ui-scale.ts`. Lists 50 apps, follows 100,000 log lines live, and
// uploads and downloads an object of 1 GiB. During the transfers it measures the memory of every process of Cellar. Needs
// Chromium and 3 GiB of disk. `apps`, `log` and `object` select parts; `--quick` uses little data, to show that the script
// still works.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { effort, isQuick } from '../bench/support/bench-scale.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { memoryDuring } from '../test/support/e2e/memories.ts';
import { rpcOf } from '../test/support/e2e/rpc.ts';
import { eventually } from '../test/support/processes.ts';
import { becomeFirst, originOf } from '../test/support/ui/accounts.ts';
import { type Person, UiBrowser } from '../test/support/ui/browser.ts';

const MIB = 2 ** 20;
const APPS = effort(50, 3);
const LINES = effort(100_000, 4_000);
/** Log lines per request to the app. */
const BATCH = 1_000;
/** Interval between requests to the app, in ms. Cellar drops lines of an app above `LINES_PER_S`. */
const BATCH_MS = effort(600, 100);
const OBJECT_BYTES = effort(1024, 8) * MIB;
/** Maximum rows in the log view. */
const ROWS = 2_000;
const LONG_TASK_MS = 200;
/** Limit of a process's memory growth during the transfer of the object, in bytes. */
const FLAT_BYTES = 128 * MIB;
const DEADLINE_MS = 15 * 60_000;

const LOGGER = `export default {
  fetch(request) {
    const from = Number(new URL(request.url).searchParams.get('from'));
    for (let n = from; n < from + ${BATCH}; n++) console.log('line ' + n + ' of many, with some more words behind it');
    return new Response('printed');
  },
};\n`;

await using cellar = await new Cellar({ RUNNER_MAX_APPS_PER_USER: String(2 * APPS) }).start();
const rpc = rpcOf(cellar);
const wanted = process.argv.slice(2).filter((word) => word !== '--quick');
const isWanted = (part: string) => wanted.length === 0 || wanted.includes(part);
await using browser = await UiBrowser.start();
const ada = await browser.person(originOf(cellar));
await becomeFirst(ada, cellar);
let missed = 0;
if (isWanted('apps')) await manyApps(ada);
if (isWanted('log')) await manyLines(ada);
if (isWanted('object')) await largeObject(ada);
process.exitCode = missed === 0 ? 0 : 1;

/** Prints a figure and whether it meets its target. A quick run prints the figure only. */
function reportFigure(what: string, isMet: boolean): void {
  if (isQuick) console.log(`       ${what}`);
  else report(what, isMet);
}

/** Prints a fact and whether it meets its target. */
function report(what: string, isMet: boolean): void {
  if (!isMet) missed++;
  console.log(`${isMet ? 'met   ' : 'MISSED'} ${what}`);
}

async function manyApps({ page }: Person): Promise<void> {
  const slug = (n: number) => `app-${String(n).padStart(2, '0')}`;
  const last = slug(APPS - 1);
  for (let n = 0; n < APPS; n++) {
    const { detail } = await rpc('apps.create', { slug: slug(n) });
    if (detail) throw new Error(detail);
  }
  await watchTasks(ada);
  const from = performance.now();
  await page.goto('/');
  await page.getByRole('link', { name: last, exact: true }).waitFor();
  const shownMs = performance.now() - from;
  const rows = await page.getByRole('link', { name: /^app-\d\d$/ }).count();
  report(
    `${rows} of ${APPS} apps are in the list, ${shownMs.toFixed(0)} ms after the address was entered`,
    rows === APPS,
  );
  const typed = performance.now();
  await page.keyboard.press('/');
  await page.keyboard.type(last);
  await eventually(
    async () => (await page.getByRole('link', { name: /^app-\d\d$/ }).count()) === 1,
    'one is left',
  );
  console.log(`       one of them is found ${(performance.now() - typed).toFixed(0)} ms after the first key`);
  await reportTasks('the list of apps');
}

async function manyLines({ page }: Person): Promise<void> {
  await cellar.deploy('logger', 'hello', { 'index.js': LOGGER });
  await page.goto('/apps/logger/logs');
  await page.getByRole('heading', { name: 'Logs' }).waitFor();
  await cellar.get('logger', '/?from=-1000');
  await page.getByText('line -1 of many').waitFor();
  await watchTasks(ada);
  for (let n = 0; n < LINES; n += BATCH) {
    const next = sleep(BATCH_MS);
    await cellar.get('logger', `/?from=${n}`);
    await next;
  }
  const from = performance.now();
  await page.getByText(`line ${LINES - 1} of many`).waitFor();
  console.log(
    `       the last of ${LINES} lines is shown ${(performance.now() - from).toFixed(0)} ms after its turn`,
  );
  const rows = await page.locator('.log-line').count();
  report(`${rows} rows are drawn`, rows <= ROWS);
  const foot = (await page.locator('.log-foot').textContent()) ?? '';
  report(`it says what it has and what not: ${foot}`, /^2.000 lines, \d+.\d{3} others not shown/.test(foot));
  await reportTasks('the log');
  const memory = await ada.evaluate<number>('performance.memory.usedJSHeapSize');
  console.log(`       the page's heap has ${(memory / MIB).toFixed(0)} MiB`);
}

async function largeObject({ page }: Person): Promise<void> {
  const id = await cellar.deploy('keeper', 'bucket');
  const file = join(cellar.directory, 'film.bin');
  const digest = await writeFilm(file);
  await page.goto('/apps/keeper/storage/buckets/files');
  await page.getByRole('button', { name: 'Upload files' }).waitFor();
  await watchTasks(ada);
  await during('uploading', async () => {
    await page.locator('input[type=file]').setInputFiles(file);
    await page.getByRole('button', { name: 'film.bin', exact: true }).waitFor({ timeout: DEADLINE_MS });
  });
  await reportTasks('the upload');
  const object = { id, bucket: 'files', key: 'film.bin' };
  const { size } = await rpc('storage.r2.get', object);
  report(`the object has ${size} bytes`, size === OBJECT_BYTES);
  const begun = performance.now();
  await page.getByRole('button', { name: 'film.bin', exact: true }).click();
  await page.getByText(/^The first /).waitFor();
  console.log(`       its beginning is shown after ${(performance.now() - begun).toFixed(0)} ms`);
  const to = join(cellar.directory, 'again.bin');
  await during('downloading', async () => {
    const [download] = await Promise.all([
      page.waitForEvent('download', { timeout: DEADLINE_MS }),
      page.getByRole('dialog').getByRole('link', { name: 'Download' }).click(),
    ]);
    await download.saveAs(to);
  });
  report('what is downloaded is what was uploaded', (await digestOf(to)) === digest);
  const put = await during('putting at once', async () => {
    const response = await fetch(`${cellar.api}/v1/apps/${id}/storage/r2/files/raw?key=once.bin`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${cellar.token}`, 'content-length': String(OBJECT_BYTES) },
      body: createReadStream(file),
      duplex: 'half',
    } as RequestInit);
    return response.json() as Promise<{ size?: number; detail?: string }>;
  });
  report(`put at once: ${put.size ?? put.detail} bytes`, put.size === OBJECT_BYTES);
}

/** Writes a file of `OBJECT_BYTES`. @returns its MD5 hash */
async function writeFilm(path: string): Promise<string> {
  const stream = createWriteStream(path);
  const hash = createHash('md5');
  for (let n = 0; n < OBJECT_BYTES / MIB; n++) {
    const piece = Buffer.alloc(MIB, `piece ${n} `);
    hash.update(piece);
    if (!stream.write(piece)) await once(stream, 'drain');
  }
  stream.end();
  await once(stream, 'finish');
  return hash.digest('hex');
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('md5');
  for await (const piece of createReadStream(path)) hash.update(piece);
  return hash.digest('hex');
}

/** Runs `work`, and prints its duration and the memory growth of each of Cellar's processes. */
async function during<T>(what: string, work: () => Promise<T>): Promise<T> {
  const from = performance.now();
  const { result, most } = await memoryDuring(cellar, work);
  const seconds = (performance.now() - from) / 1000;
  console.log(
    `       ${what} took ${seconds.toFixed(1)} s: ${(OBJECT_BYTES / MIB / seconds).toFixed(0)} MiB/s`,
  );
  for (const { name, bytes, grown } of most) {
    reportFigure(
      `${what}: ${name} ${(bytes / MIB).toFixed(0)} MiB at most, ${(grown / MIB).toFixed(0)} more than before`,
      grown <= FLAT_BYTES,
    );
  }
  await sleep(1_000);
  return result;
}

/** Starts to record the page's long tasks (more than 50 ms). */
async function watchTasks(person: Person): Promise<void> {
  await person.evaluate(`(() => {
    window.longTasks = [];
    window.taskObserver?.disconnect();
    window.taskObserver = new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((each) => each.duration)));
    taskObserver.observe({ type: 'longtask' });
  })()`);
}

async function reportTasks(what: string): Promise<void> {
  const tasks = (await ada.evaluate<number[] | null>('window.longTasks ?? null')) ?? [];
  const longest = Math.max(0, ...tasks);
  reportFigure(
    `${what}: the longest task of the page took ${longest.toFixed(0)} ms (${tasks.length} of more than 50 ms)`,
    longest < LONG_TASK_MS,
  );
}
