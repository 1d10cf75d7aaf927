// Reads, compares and changes the refs of a repository, on the disk and in the bucket.
import { runGit } from '../../git/git.ts';
import type { RefUpdate } from '../../git/smart-http.ts';
import { Refusal } from '../../refusal.ts';
import { isRefName, type Refs } from './refs-content.ts';

/** Maximum refs of a repository in the bucket. It is limited, because each push writes all refs. */
const MOST_REFS = 20_000;
/** Maximum bytes of the names of all refs. */
const MOST_BYTES = 2 * 2 ** 20;
const NO_SHA = /^0+$/;

/** Returns the refs on the disk. */
export async function readRefs(repository: string): Promise<Refs> {
  const { output } = await runGit(repository, ['for-each-ref', '--format=%(objectname) %(refname)']);
  const lines = output.toString('utf8').split('\n').filter(Boolean);
  return Object.fromEntries(lines.map((line) => [line.slice(line.indexOf(' ') + 1), line.split(' ', 1)[0]!]));
}

/** Changes the refs on the disk from `before` to `after`. The objects of `after` must be on the disk. */
export async function setRefs(repository: string, before: Refs, after: Refs): Promise<void> {
  const deleted = Object.entries(before).filter(([ref]) => !Object.hasOwn(after, ref));
  const moved = Object.entries(after).filter(([ref, sha]) => before[ref] !== sha);
  // Deletions come first, because a deleted branch `a` is in the way of a new branch `a/b`.
  await update(
    repository,
    deleted.map(([ref, sha]) => `delete ${ref} ${sha}\n`),
  );
  await update(
    repository,
    moved.map(([ref, sha]) => `update ${ref} ${sha} ${before[ref] ?? '0'.repeat(sha.length)}\n`),
  );
}

async function update(repository: string, lines: string[]): Promise<void> {
  if (lines.length > 0) await runGit(repository, ['update-ref', '--stdin'], { input: lines.join('') });
}

export function areSame(one: Refs, other: Refs): boolean {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => one[name] === other[name]);
}

/**
 * Returns the refs after updates.
 * @throws {Refusal} 409 when a ref is not where an update expects it; 400 for an invalid name of a ref, and when the updates
 *   add refs or bytes above the limit
 */
export function changed(refs: Refs, updates: readonly RefUpdate[]): Refs {
  const after = { ...refs };
  for (const { ref, before, after: sha } of updates) {
    const isDeletion = NO_SHA.test(sha);
    const known = after[ref];
    // Git allows the deletion of a missing ref.
    const isExpected = NO_SHA.test(before) ? known === undefined || isDeletion : known === before;
    if (!isExpected)
      throw new Refusal(409, 'commit_conflict', `${ref} is at ${known ?? 'no commit'} in the bucket`);
    if (isDeletion) delete after[ref];
    else if (isRefName(ref)) after[ref] = sha;
    else throw new Refusal(400, 'invalid_input', `${JSON.stringify(ref)} is not a name of a branch or tag`);
  }
  const [now, then] = [sizeOf(after), sizeOf(refs)];
  const isTooMuch =
    (now.count > MOST_REFS && now.count > then.count) || (now.bytes > MOST_BYTES && now.bytes > then.bytes);
  if (isTooMuch)
    throw new Refusal(
      400,
      'invalid_input',
      `a repository in the bucket may have at most ${MOST_REFS} branches and tags, whose names have at most ${MOST_BYTES} bytes: delete some first`,
    );
  return after;
}

function sizeOf(refs: Refs): { count: number; bytes: number } {
  const names = Object.keys(refs);
  return { count: names.length, bytes: Buffer.byteLength(names.join('')) };
}
