// The control UI in a real Chromium where it is hard: large files, a connection that breaks, several people at once.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/e2e/processes.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { becomeFirst, originOf } from '../support/ui/accounts.ts';
import { NEEDS_CHROMIUM, type Person, UiBrowser } from '../support/ui/browser.ts';

const MIB = 2 ** 20;
const cellar = new Cellar();
const rpc = rpcOf(cellar);
let browser: UiBrowser;
let ada: Person;
let id: string;

before(async () => {
  if (NEEDS_CHROMIUM.skip !== undefined) return;
  await cellar.start();
  id = await cellar.deploy('shop', 'bucket');
  browser = await UiBrowser.start();
  ada = await browser.person(originOf(cellar));
  await becomeFirst(ada, cellar);
});
after(async () => {
  await browser?.[Symbol.asyncDispose]();
  await cellar[Symbol.asyncDispose]();
});

test(
  'a large file is uploaded in parts, goes on where the connection broke, and is dropped when it is cancelled',
  NEEDS_CHROMIUM,
  async () => {
    const { page } = ada;
    const content = randomBytes(20 * MIB + 5);
    const file = join(cellar.data, '..', 'film.bin');
    writeFileSync(file, content);
    try {
      const puts: string[] = [];
      page.on('request', (request) => {
        if (request.method() === 'PUT') puts.push(new URL(request.url()).searchParams.get('part') ?? 'whole');
      });
      await page.goto('/apps/shop/storage/buckets/files/films');
      await page.getByRole('button', { name: 'Upload files' }).waitFor();
      const session = await page.context().newCDPSession(page);
      await session.send('Network.enable');
      const network = (offline: boolean, uploadThroughput: number) =>
        session.send('Network.emulateNetworkConditions', {
          offline,
          latency: 0,
          downloadThroughput: -1,
          uploadThroughput,
        });
      await network(false, 5 * MIB);
      await page.locator('input[type=file]').setInputFiles(file);
      const progress = page.getByRole('progressbar', { name: 'Upload of film.bin' });
      const sent = () => progress.evaluate((bar) => (bar as unknown as { value: number }).value);
      await eventually(async () => (await sent()) > 9 * MIB, 'the second part is on its way');
      ada.expect(/ERR_INTERNET_DISCONNECTED/);
      await network(true, -1);
      await page.getByText('The connection broke off. It goes on by itself.').waitFor();
      assert.ok((await sent()) >= 8 * MIB);
      await network(false, -1);
      await page.getByRole('button', { name: 'film.bin', exact: true }).waitFor();
      assert.equal(await progress.count(), 0);
      assert.equal(puts.filter((part) => part === '1').length, 1, `the first part was sent once: ${puts}`);
      assert.ok(puts.length > 3, `the part that broke was sent again: ${puts}`);
      const object = { id, bucket: 'files', key: 'films/film.bin' };
      const { content_base64 } = await rpc('storage.r2.raw', {
        ...object,
        range: `bytes=${8 * MIB - 9}-${8 * MIB + 9}`,
      });
      assert.deepEqual(Buffer.from(content_base64, 'base64'), content.subarray(8 * MIB - 9, 8 * MIB + 10));
      assert.equal((await rpc('storage.r2.get', object)).size, content.length);

      await page.getByRole('button', { name: 'film.bin', exact: true }).click();
      await page.getByText(/^The first .+ of .+:$/).waitFor();
      assert.deepEqual(await ada.findings(), []);
      await page.keyboard.press('Escape');

      writeFileSync(file, 'small');
      await page.locator('input[type=file]').setInputFiles(file);
      await eventually(
        async () => (await rpc('storage.r2.get', object)).size === 5,
        'the small one is there',
      );

      await network(false, 2 * MIB);
      writeFileSync(file, content);
      await page.locator('input[type=file]').setInputFiles(file);
      await eventually(async () => (await sent()) > MIB, 'it is on its way');
      await page.getByRole('button', { name: 'Cancel the upload of film.bin' }).click();
      await progress.waitFor({ state: 'detached' });
      assert.equal((await rpc('storage.r2.get', object)).size, 5);
      await session.detach();
      browser.assertQuiet();
    } finally {
      rmSync(file);
    }
  },
);
