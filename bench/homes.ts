// Three hosts with many apps. With sleeping ones: the time of a start, and the requests to the bucket afterwards. With running
// ones: the time of a drain, and how long the apps of a killed host are away. The hosts and the bucket share this machine.
import { setTimeout as sleep } from 'node:timers/promises';
import { MemoryStore } from '../test/support/bucket/memory-store.ts';
import type { Cellar } from '../test/support/e2e/cellar.ts';
import { rpcOf } from '../test/support/e2e/rpc.ts';
import { hostOf, type TestHost } from '../test/support/hosts/hosts.ts';
import { eventually } from '../test/support/processes.ts';
import { effort } from './support/bench-scale.ts';
import { copiesInBucket } from './support/copies-in-bucket.ts';
import { median } from './support/figures.ts';

const SLEEPING = effort(3_000, 6);
const RUNNING = effort(100, 3);
const WATCHED_MS = effort(120_000, 1_000);
const AT_ONCE = 8;
const DEADLINE_MS = 900_000;
/** Timeout until an app answers, in ms. */
const ANSWER_MS = 60_000;
/** Pause of a client between two requests, in ms. */
const PAUSE_MS = 200;
const HOUR_MS = 3_600_000;
const PLACE = 'of/cellar/';

interface Shared {
  store: MemoryStore;
  hosts: TestHost[];
}

/** Prints the figures of sleeping apps, then those of running ones. */
export async function run(): Promise<void> {
  await withHosts(SLEEPING, true, sleepers);
  await withHosts(RUNNING, true, running);
}

/** Starts three hosts; all apps are at the first. */
async function withHosts(count: number, hasFiles: boolean, use: (shared: Shared) => Promise<void>) {
  await using store = await new MemoryStore().start();
  const settings = { RUNNER_CLUSTER_KEY: 'c'.repeat(64), RUNNER_STORAGE: 'bucket' };
  const hosts = [1, 2, 3].map((number) => hostOf(store, number, settings));
  try {
    await copiesInBucket(hosts[0]!, store.place(PLACE), { count, files: {}, hasFiles });
    await hosts[0]!.start();
    const stored = (name: RegExp) => [...store.objects.keys()].filter((key) => name.test(key)).length;
    await eventually(() => stored(/\/records\//) === count + 1, 'each app has a record', DEADLINE_MS);
    if (hasFiles)
      await eventually(() => stored(/\/releases\//) === count + 1, 'each release is stored', DEADLINE_MS);
    await Promise.all(hosts.slice(1).map((host) => host.start()));
    await use({ store, hosts });
  } finally {
    await Promise.allSettled(hosts.map((host) => host[Symbol.asyncDispose]()));
  }
}

async function sleepers({ store, hosts }: Shared): Promise<void> {
  const rpc = rpcOf(hosts[0]!);
  const ids = await namesOf(hosts[0]!, 'id');
  const idsOfHosts = await Promise.all(hosts.map(async (host) => (await listed(host)).id));
  const begun = performance.now();
  await each(ids, async (id, n) => {
    if (n % 3 > 0) await done(rpc('apps.move', { id, host: idsOfHosts[n % 3] }));
  });
  console.log(
    `moving ${Math.floor((SLEEPING * 2) / 3)} sleeping apps: ${since(begun)} s, ${AT_ONCE} at once`,
  );
  for (const [n, host] of hosts.entries()) {
    // A host that stops in order would hand its apps over.
    await host.stop('SIGKILL');
    const before = store.asked.length;
    const from = performance.now();
    await host.start();
    const [ready, requests] = [since(from), store.asked.length - before];
    const { apps } = await listed(host);
    console.log(
      `host ${n + 1} of 3, with ${apps} sleeping apps: ready after ${ready} s, ${requests} requests`,
    );
  }
  await sleep(WATCHED_MS / 2);
  const before = store.asked.length;
  await sleep(WATCHED_MS);
  const asked = store.asked.slice(before);
  const others = asked.filter(({ key }) => !key.startsWith(`${PLACE}apps/control/`)).length;
  const perHour = (count: number) => Math.round((count * HOUR_MS) / WATCHED_MS);
  console.log(
    `requests to the bucket per hour: ${perHour(asked.length - others)} of the control plane, ${perHour(others)} others`,
  );
}

async function running({ hosts }: Shared): Promise<void> {
  const [drained, lost, client] = hosts as [TestHost, TestHost, TestHost];
  const slugs = await namesOf(client, 'slug');
  await each(slugs, (slug) => answers(client, slug));
  const drain = async () => {
    await done(rpcOf(client)('hosts.drain', { host: (await listed(drained)).id }));
    await eventually(async () => (await listed(drained)).apps === 0, 'the host has no app', DEADLINE_MS);
  };
  await outage('a drain of', slugs, client, slugs.length, drain);
  const { apps } = await listed(lost);
  const lose = async () => {
    await lost.stop('SIGKILL');
    await sleep(PAUSE_MS);
    await Promise.all(slugs.map((slug) => answers(client, slug)));
  };
  await outage('the loss of a host with', slugs, client, apps, lose);
}

/** Prints the duration of `happens`, and the median and maximum outage of the `count` apps with the longest outages. */
async function outage(
  what: string,
  slugs: string[],
  client: Cellar,
  count: number,
  happens: () => Promise<void>,
): Promise<void> {
  let ends = false;
  const longest = slugs.map(async (slug) => {
    let most = 0;
    while (!ends) {
      const asked = performance.now();
      await answers(client, slug);
      most = Math.max(most, performance.now() - asked);
      await sleep(PAUSE_MS);
    }
    return most;
  });
  const begun = performance.now();
  await happens();
  const took = since(begun);
  ends = true;
  const away = (await Promise.all(longest)).sort((a, b) => b - a).slice(0, count);
  console.log(
    `${what} ${count} running apps: ${took} s; an app is away for ${Math.round(median(away))} ms (median), at most ${Math.round(away[0] ?? 0)} ms`,
  );
}

/** Asks an app until it answers. */
async function answers(client: Cellar, slug: string): Promise<void> {
  const isThere = async () => (await client.get(slug, '/')).status === 200;
  await eventually(() => isThere().catch(() => false), `${slug} answers`, ANSWER_MS);
}

/** Returns a host as the API shows it. */
async function listed(host: TestHost): Promise<{ id: string; apps: number }> {
  const { items } = await rpcOf(host)('hosts.list', {});
  return items.find(({ address }: { address: string }) => address === host.address);
}

/** Returns the ids or slugs of all copies. */
async function namesOf(host: Cellar, field: 'id' | 'slug'): Promise<string[]> {
  const names: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await rpcOf(host)('apps.list', { limit: 100, ...(cursor && { cursor }) });
    names.push(
      ...page.items
        .filter(({ slug }: { slug: string }) => slug !== 'proto')
        .map((app: Record<string, string>) => app[field]),
    );
    cursor = page.next_cursor ?? undefined;
    if (cursor === undefined) return names;
  }
}

async function each<T>(items: readonly T[], work: (item: T, n: number) => Promise<void>): Promise<void> {
  const left = items.entries();
  const next = async () => {
    for (const [n, item] of left) await work(item, n);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
}

async function done(call: Promise<{ code?: string; detail?: string }>): Promise<void> {
  const { code, detail } = (await call) ?? {};
  if (code !== undefined) throw new Error(`${code} ${detail}`);
}

function since(from: number): string {
  return ((performance.now() - from) / 1_000).toFixed(1);
}
