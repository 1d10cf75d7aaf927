// Runs one Worker with a bucket twice: in a cell (an app's workerd process) with the real bucket service, and under Miniflare.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { TestContext } from 'node:test';
import { AppCluster } from '../../../runtime/bucket/app-cluster.ts';
import { type Layout, layout } from '../../../runtime/disk/data-directory.ts';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { Buckets } from '../../../runtime/storage/r2/buckets.ts';
import type { Body } from '../../../runtime/storage/r2/client.ts';
import type { ServiceOptions } from '../../../runtime/storage/r2/messages.ts';
import { MemoryStore } from '../bucket/memory-store.ts';
import { CLUSTER_KEY, startProxy } from '../bucket/proxy.ts';
import { call, cellOptions, makeRelease } from '../fleets/release.ts';
import { newMiniflare } from '../miniflare.ts';
import { temporaryDirectory } from '../temporary.ts';

export const APP_ID = 'a'.repeat(16);
const WORKER = readFileSync(new URL('./r2-app.js', import.meta.url), 'utf8');

/** A call of a bucket's method with its arguments. `r2-app.js` defines the placeholders for bytes and other types. */
export type Step = [method: string, ...values: unknown[]];
// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
export type Answer = { value?: any; error?: string };

/** Returns bytes as the body of an object or a part. */
export const bodyOf = (bytes: Buffer): Body => ({ size: bytes.length, bytes: Readable.from([bytes]) });

/** Starts a bucket service in a temporary data directory. */
export function startBuckets(t: TestContext, service: ServiceOptions = { maxMb: 0, floorMb: 0 }) {
  const paths = layout(`${temporaryDirectory(t)}/d`);
  const buckets = new Buckets({ paths, users: () => ({ build: null, cell: null }), service });
  t.after(() => buckets.close());
  return { paths, buckets };
}

/** Starts a bucket service that keeps the objects of all apps in a store, behind a bucket proxy. */
export async function startRemoteBuckets(t: TestContext, service: ServiceOptions = { maxMb: 0, floorMb: 0 }) {
  const store = await new MemoryStore().start();
  const place = store.place('of/cellar/');
  const { port, counts } = await startProxy(t, place);
  const paths = layout(`${temporaryDirectory(t)}/d`);
  const clusterOf = (appId: string) =>
    new AppCluster({
      ...{ place, appId, clusterKey: CLUSTER_KEY, importing: paths.importing(appId) },
      endpoint: () => `http://127.0.0.1:${port}`,
      isAway: () => false,
      ready: async () => {},
      untilUsable: async () => {},
      warn: () => {},
    });
  const buckets = new Buckets({ paths, users: () => ({ build: null, cell: null }), service, clusterOf });
  t.after(async () => {
    await buckets.close();
    await store[Symbol.asyncDispose]();
  });
  return { paths, buckets, store, counts, clusterOf };
}

/** Starts a cell of an app whose Worker is `r2-app.js`. */
export async function startApp(
  t: TestContext,
  { paths, buckets }: { paths: Layout; buckets: Buckets },
  appId = APP_ID,
  code = WORKER,
) {
  const directory = paths.release(appId, 'release');
  await makeRelease(directory, code, { buckets: [{ binding: 'BUCKET', storageId: 'main' }] });
  const root = join(paths.root, 'cells', appId);
  const files = new CellFilesCache(join(root, 'run'), 512, { bucketSocket: await buckets.open(appId) });
  const cell = await startCell({ ...(await cellOptions(root, directory)), ...(await files.of(directory)) });
  t.after(() => cell.kill());
  const socket = cell.socketPath('http');
  return {
    cell,
    socket,
    run: async (steps: Step[]): Promise<Answer[]> => {
      const { status, text } = await call(socket, '/', { method: 'POST', body: JSON.stringify(steps) });
      if (status !== 200) throw new Error(`the app answered ${status}: ${text}`);
      return JSON.parse(text);
    },
  };
}

/** Starts the same app under Miniflare. */
export async function startMiniflare(t: TestContext) {
  const root = temporaryDirectory(t);
  const instance = newMiniflare({
    resourcePersistencePath: root,
    name: 'app',
    modules: true,
    script: WORKER,
    compatibilityDate: '2026-10-01',
    r2Buckets: { BUCKET: 'main' },
  });
  t.after(() => instance.dispose());
  const url = await instance.ready;
  return {
    url,
    run: async (steps: Step[]): Promise<Answer[]> => {
      const answer = await fetch(url, { method: 'POST', body: JSON.stringify(steps) });
      if (answer.status !== 200)
        throw new Error(`Miniflare answered ${answer.status}: ${await answer.text()}`);
      return (await answer.json()) as Answer[];
    },
  };
}
