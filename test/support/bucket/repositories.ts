// A repository in a bucket of the test, served over smart HTTP to stock git.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { BucketRepository } from '../../../runtime/bucket/code/bucket-repository.ts';
import { remote } from '../git/remote.ts';
import { temporaryDirectory } from '../temporary.ts';
import type { MemoryStore } from './memory-store.ts';

const PREFIX = 'of/cellar/apps/app1/repository/';

/** Serves a repository from the bucket, as a Cellar with the data directory `directory` does. */
export async function bucketRemote(
  t: TestContext,
  store: MemoryStore,
  directory: string = temporaryDirectory(t),
) {
  const open = () =>
    new BucketRepository({
      ...{ place: store.place('of/cellar/'), appId: 'app1', path: join(directory, 'app.git') },
      owner: () => 'ada',
      floorMb: 0,
      ready: async () => new AbortController().signal,
      isDeleted: () => false,
    });
  const machine = { stored: open() };
  const served = await remote(t, undefined, directory, {
    before: (isPush, serve) => (isPush ? machine.stored.during(serve) : machine.stored.reading(serve)),
    onPrepared: (updates) => machine.stored.store(updates),
  });
  return {
    ...served,
    store,
    /** The object with which the host reads and writes the repository in the bucket. */
    get stored() {
      return machine.stored;
    },
    /** Drops everything that the host has in memory, as a restart does. */
    restart: () => {
      machine.stored = open();
    },
    /** Removes the repository from the disk, and restarts. */
    lose: () => {
      rmSync(served.repository, { recursive: true });
      machine.stored = open();
    },
  };
}

/** Returns the refs and packs of the repository in the bucket. */
export function inBucket(store: MemoryStore) {
  const names = [...store.objects.keys()].filter((name) => name.startsWith(PREFIX));
  const found = store.objects.get(`${PREFIX}refs.json`);
  const content = found?.body.toString('utf8');
  const { refs, packs } = content === undefined ? { refs: {}, packs: [] } : JSON.parse(content);
  return {
    etag: found?.etag,
    refs: refs as Record<string, string>,
    packs: packs as string[],
    files: names.filter((name) => name.endsWith('.pack')).length,
  };
}
