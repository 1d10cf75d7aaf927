// Many sleeping apps in the bucket: how long an empty machine takes to continue them, and with which memory and
// requests. Then shows that nothing asks the bucket for them. Compared with the same Cellar, restarted with its disk.
import { setTimeout as sleep } from 'node:timers/promises';
import { MemoryStore } from '../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../test/support/bucket/settings.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { eventually } from '../test/support/processes.ts';
import { effort } from './support/bench-scale.ts';
import { copiesInBucket } from './support/copies-in-bucket.ts';
import { privateKb } from './support/figures.ts';

const APPS = effort(10_000, 20);
/** Latency of the bucket, in ms. */
const DELAYS_MS = [0, 5];
const WATCHED_MS = effort(120_000, 1_000);
const STORED_MS = 600_000;
const RECORDED_MS = effort(5_000, 500);
/** Maximum number of names of other requests that are printed. */
const SHOWN = 5;

/** Prints the figures of both starts, and the requests afterwards. */
export async function run(): Promise<void> {
  await using store = await new MemoryStore().start();
  const settings = { ...bucketSettings(store.place('bench/')), RUNNER_CLUSTER_KEY: 'c'.repeat(64) };
  await using kept = new Cellar(settings);
  await copiesInBucket(kept, store.place('bench/'), { count: APPS, files: {}, hasFiles: false });
  await kept.start();
  const records = () => [...store.objects.keys()].filter((name) => name.startsWith('bench/records/')).length;
  await eventually(() => records() === APPS + 1, 'each app has a record', STORED_MS);
  await kept.stop();
  for (const delayMs of DELAYS_MS) {
    store.faults = { delayMs };
    console.log(`${APPS} sleeping apps, the bucket answers after ${delayMs} ms`);
    await using next = new Cellar(settings);
    const start = store.asked.length;
    await report(store, 'an empty machine', next);
    const begun = performance.now();
    await eventually(() => alarmsRead(store, start) >= APPS, 'the alarms of each app are read', STORED_MS);
    console.log(
      `  the alarms of all apps are read after ${((performance.now() - begun) / 1_000).toFixed(1)} s more`,
    );
    // The host needs this time to record that the alarms were read.
    await sleep(RECORDED_MS);
    await next.stop();
    await report(store, 'a restart with its disk', next);
    const from = store.asked.length;
    await sleep(WATCHED_MS);
    const asked = store.asked.slice(from).map(({ key }) => key);
    const others = asked.filter((key) => !key.startsWith('bench/apps/control/'));
    const ofControl = asked.length - others.length;
    const named = others.length === 0 ? '' : ` (${others.slice(0, SHOWN).join(', ')})`;
    console.log(
      `requests in ${WATCHED_MS / 1_000} s: ${ofControl} of the control plane, ${others.length} others${named}`,
    );
    await next.stop();
  }
}

/** Returns how many apps' alarms were listed after the request number `from`. */
function alarmsRead(store: MemoryStore, from: number): number {
  const listed = store.asked.slice(from).filter(({ key }) => key.endsWith('/data/v1/alarms/'));
  return new Set(listed.map(({ key }) => key)).size;
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
}
