// Releases in a bucket of the test.
import { chmodSync, linkSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { BucketReleases } from '../../../runtime/bucket/code/bucket-releases.ts';
import { temporaryDirectory } from '../temporary.ts';
import type { MemoryStore } from './memory-store.ts';

/** Returns functions for tests of an app's releases in a bucket. `open` opens the releases, as a host does at its start. */
export function openReleases(
  t: TestContext,
  store: MemoryStore,
  { appId = 'app1', owner = 'ada', floorMb = 0 } = {},
) {
  const root = temporaryDirectory(t);
  const scratch = join(root, 'builds');
  mkdirSync(scratch);
  const directory = (deployId: string) => join(root, 'releases', deployId);
  const state = { isDeleted: false };
  const away = new AbortController();
  const open = () =>
    new BucketReleases({
      ...{ place: store.place('of/cellar/'), appId, owner: () => owner, directory, scratch, floorMb },
      ready: async () => away.signal,
      isDeleted: () => state.isDeleted,
    });
  const place = (deployId: string) => {
    mkdirSync(join(directory(deployId), 'assets', 'deep'), { recursive: true });
    writeFileSync(join(directory(deployId), 'release.json'), deployId);
    writeFileSync(join(directory(deployId), 'assets', 'deep', '-a name with ü'), 'an asset');
    linkSync(join(directory(deployId), 'release.json'), join(directory(deployId), 'linked'));
    chmodSync(join(directory(deployId), 'release.json'), 0o640);
  };
  return { open, place, directory, state, scratch, away, trash: join(root, 'trash') };
}
