// Many sleeping apps in the bucket: how long an empty machine takes to continue them, with which memory and how many requests, and
// that nothing asks the bucket for them afterwards. Beside the same Cellar, restarted with its disk.
import { renameSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { S3Place } from '../runtime/bucket/place.ts';
import { S3Store } from '../runtime/bucket/s3-store.ts';
import { layout } from '../runtime/disk/data-directory.ts';
import { openHostStore } from '../sqlite/host/index.ts';
import { MemoryStore } from '../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../test/support/bucket/settings.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { eventually } from '../test/support/e2e/processes.ts';
import { effort } from './support/bench-scale.ts';
import { Copies } from './support/copies.ts';
import { privateKb } from './support/figures.ts';

const APPS = effort(10_000, 20);
/** Latency of the bucket, in ms. */
const DELAYS_MS = [0, 5];
const WATCHED_MS = effort(120_000, 1_000);
const STORED_MS = 600_000;

/** Prints the figures of both starts, and the requests afterwards. */
export async function run(): Promise<void> {
  await using store = await new MemoryStore().start();
  const settings = { ...bucketSettings(store.place('bench/')), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using kept = new Cellar(settings);
  await makeSleepers(kept, store.place('bench/'));
  await kept.start();
  const records = () => [...store.objects.keys()].filter((name) => name.startsWith('bench/records/')).length;
  await eventually(() => records() === APPS + 1, 'each app has a record', STORED_MS);
  await kept.stop();
  for (const delayMs of DELAYS_MS) {
    store.faults = { delayMs };
    console.log(`${APPS} sleeping apps, the bucket answers after ${delayMs} ms`);
    await using next = new Cellar(settings);
    await report(store, 'an empty machine', next);
    await report(store, 'a restart with its disk', next);
    const from = store.asked.length;
    await sleep(WATCHED_MS);
    const asked = store.asked.slice(from).map(({ key }) => key);
    const ofControl = asked.filter((key) => key.startsWith('bench/apps/control/')).length;
    console.log(
      `requests in ${WATCHED_MS / 1_000} s: ${ofControl} of the control plane, ${asked.length - ofControl} others`,
    );
    await next.stop();
  }
}

/** Starts a Cellar without a bucket, with one app and its sleeping copies. Their data is in the bucket from the next start on. */
async function makeSleepers(cellar: Cellar, place: S3Place): Promise<void> {
  await using local = await new Cellar().start();
  const id = await local.deploy('proto', 'hello');
  const deployId = (await local.app(id)).live_deploy_id;
  await local.stop();
  const copies = new Copies(local.data, id, deployId);
  copies.make(APPS, 'sleeping', { hasFiles: false });
  copies.toBucket();
  const host = openHostStore(layout(local.data).database);
  // Without it, a Cellar with data in the bucket takes an unused one for the wrong one.
  await new S3Store(place).write(
    'cellar.json',
    Buffer.from(JSON.stringify({ cellar: host.snapshots.cellar() })),
  );
  host.close();
  renameSync(local.data, cellar.data);
}

async function report(store: MemoryStore, name: string, cellar: Cellar): Promise<void> {
  const from = store.asked.length;
  const begun = performance.now();
  await cellar.start();
  const seconds = ((performance.now() - begun) / 1_000).toFixed(1);
  const requests = store.asked.length - from;
  const { body } = await cellar.call('GET', '/v1/admin/stats');
  console.log(
    `  ${name.padEnd(26)}ready after ${seconds} s, ${requests} requests, host ${(privateKb(cellar.pid) / 1024).toFixed(0)} MB`,
  );
  if (body.host === undefined) throw new Error(JSON.stringify(body));
  if (name === 'an empty machine') await cellar.stop();
}
