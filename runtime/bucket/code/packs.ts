// Packs of a repository's objects, as files.
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFile } from '../../../bundler/sync.ts';
import { runGit } from '../../git/git.ts';

/** Timeout of packing or indexing, in ms. */
const DEADLINE_MS = 10 * 60_000;

/** Returns the directory for unfinished packs. Snapshots leave out names that begin with `tmp_`. */
function scratchOf(repository: string): string {
  return join(repository, 'tmp_bucket');
}

/** Runs `work` with an empty directory inside the repository. Calls for one repository must not overlap. */
export async function withScratch<T>(repository: string, work: (scratch: string) => Promise<T>): Promise<T> {
  const scratch = scratchOf(repository);
  await rm(scratch, { recursive: true, force: true });
  await mkdir(scratch, { mode: 0o700 });
  try {
    return await work(scratch);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/**
 * Packs the objects that `tips` reach and `known` do not. The pack has no deltas against objects outside it.
 * @returns the pack's name, `pack-` and a hash, without `.pack`; null when no object is to be packed
 */
export async function makePack(
  repository: string,
  scratch: string,
  { tips, known }: { tips: string[]; known: string[] },
): Promise<string | null> {
  const input = [...new Set(tips), ...new Set(known.map((sha) => `^${sha}`))].map((line) => `${line}\n`);
  const words = ['pack-objects', '--quiet', '--revs', '--non-empty', '--delta-base-offset'];
  await runGit(repository, [...words, join(scratch, 'pack')], {
    input: input.join(''),
    timeoutMs: DEADLINE_MS,
  });
  const file = (await readdir(scratch)).find((name) => name.endsWith('.pack'));
  return file?.slice(0, -'.pack'.length) ?? null;
}

export function hasPack(repository: string, name: string): boolean {
  return existsSync(join(repository, 'objects', 'pack', `${name}.idx`));
}

/** Adds a pack in the scratch directory to the repository. */
export async function addPack(repository: string, scratch: string, name: string): Promise<void> {
  await runGit(repository, ['index-pack', join(scratch, `${name}.pack`)], { timeoutMs: DEADLINE_MS });
  const place = join(repository, 'objects', 'pack');
  await mkdir(place, { recursive: true });
  // Git finds a pack by its index, so the index comes last.
  for (const file of (await readdir(scratch))
    .filter((each) => each.startsWith(`${name}.`))
    .sort((one, other) => Number(one.endsWith('.idx')) - Number(other.endsWith('.idx')))) {
    await syncFile(join(scratch, file));
    await rename(join(scratch, file), join(place, file));
  }
  await syncFile(place);
}
