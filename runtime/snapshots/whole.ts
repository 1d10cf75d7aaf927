// A whole Cellar out of a snapshot, in an empty data directory. It is not running.
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { prepareCopy } from '../../sqlite/host/snapshots.ts';
import { reason } from '../log.ts';
import { claim, type Layout } from '../machine/data-directory.ts';
import { Unusable } from './errors.ts';
import { extract } from './extract.ts';
import { type Head, listSnapshots, readManifest } from './manifest.ts';
import { finishMoves, moveAll } from './moves.ts';
import type { Store } from './store.ts';

/**
 * Restores all that a snapshot has.
 * @param id of a snapshot, or `latest`
 * @throws {Unusable}, {NotThere}; then the directory is as it was
 * @throws {Error} when the directory is not empty
 */
export async function restoreWhole(store: Store, id: string, paths: Layout): Promise<Head> {
  const release = claim(paths);
  try {
    finishMoves(paths.restoring);
    assertEmpty(paths);
    const [newest] = (await listSnapshots(store)).reverse();
    const { head, parts } = await readManifest(store, id === 'latest' ? (newest ?? id) : id);
    const work = join(paths.restoring, 'whole');
    const files = join(work, 'files');
    try {
      await extract(
        store,
        parts.flatMap((part) => part.files),
        files,
      );
      try {
        prepareCopy(join(files, basename(paths.database)));
      } catch (error) {
        throw new Unusable(reason(error));
      }
      for (const name of ['repos', 'data', 'releases']) mkdirSync(join(files, name), { recursive: true });
    } catch (error) {
      rmSync(paths.restoring, { recursive: true, force: true });
      throw error;
    }
    const names = readdirSync(files);
    moveAll(
      work,
      names.map((name) => ({ from: join(files, name), to: join(paths.root, name), aside: null })),
    );
    rmSync(paths.restoring, { recursive: true, force: true });
    return head;
  } finally {
    release();
    rmSync(paths.lock, { force: true });
  }
}

/** What may lie there: what a snapshot never has. */
function assertEmpty(paths: Layout): void {
  const may = [
    paths.lock,
    paths.pid,
    paths.snapshots,
    // A start that its settings stopped makes it.
    paths.compiled,
    paths.secretsKey,
    paths.signInKey,
    paths.alertKey,
    paths.token,
    paths.apiKey,
  ];
  const names = readdirSync(paths.root).filter((name) => !may.includes(join(paths.root, name)));
  if (names.length > 0)
    throw new Error(
      `${paths.root} is not empty (it has ${names.slice(0, 5).join(', ')}): a whole Cellar is restored into an empty directory only`,
    );
}

/** What no snapshot has, and somebody has to bring for all to work. */
export function missingAfter(paths: Layout): string[] {
  return existsSync(paths.secretsKey) ? [] : [paths.secretsKey];
}
