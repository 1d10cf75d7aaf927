// Brings the commit of a pull request into the repository of an app, under a ref of its own.
import type { PullHost } from '../../../handlers/contract/source/pulls.ts';
import type { Apps } from '../../apps/apps.ts';
import type { FetchFrom, Imports, ImportTurn } from '../../builds/source/import.ts';
import type { Layout } from '../../disk/data-directory.ts';
import type { BranchChanges } from '../../git/branch-changes.ts';
import { runGit } from '../../git/git.ts';
import { DEPLOY_REF } from '../../git/repository.ts';
import { resolveCommit } from '../../git/source.ts';

const NO_SHA = '0'.repeat(40);

export interface BringOptions {
  apps: Apps;
  paths: Layout;
  imports: Imports;
  changes: BranchChanges;
}

/** Returns the ref that a pull request has in the app's repository. */
export function pullRef(number: number): string {
  return `refs/pull/${number}/head`;
}

/** Returns the ref of a pull request at its Git host. */
function hostedRef(host: PullHost, number: number): string {
  return host === 'gitlab' ? `refs/merge-requests/${number}/head` : pullRef(number);
}

/**
 * Fetches the commit of a pull request into the app's repository.
 * @param pull.sha the expected commit: if the Git host has another one, this throws, and the ref stays
 * @returns the keys of the SSH server, as lines of SSH's known hosts
 * @throws {Error} with why it cannot be fetched
 */
export async function bringPull(
  { imports, ...options }: BringOptions,
  appId: string,
  { host, number, sha }: { host: PullHost; number: number; sha: string },
  from: Omit<FetchFrom, 'refs' | 'have'>,
  signal: AbortSignal,
): Promise<string[]> {
  const { apps, paths } = options;
  const repository = paths.repository(appId);
  const ref = pullRef(number);
  const bring = async (turn: ImportTurn, store: Store): Promise<string[]> => {
    const before = await resolveCommit(repository, ref);
    const have = before ?? (await resolveCommit(repository, DEPLOY_REF));
    const asked = { ...from, refs: [hostedRef(host, number)], have };
    const fetched = await turn.fetch(repository, asked);
    if (fetched.sha !== sha)
      throw new Error(
        `the pull request is at commit ${fetched.sha} now; Cellar waits for the webhook with this commit`,
      );
    if (before !== sha) {
      await store([{ ref, before: before ?? NO_SHA, after: sha }]);
      await runGit(repository, ['update-ref', ref, sha, before ?? NO_SHA]);
    }
    return fetched.knownHosts;
  };
  return imports.inTurn(apps.ownerOf(appId), signal, async (turn) => {
    if (!apps.get(appId)) throw new Error('the app was deleted');
    return changeRefs(options, appId, (store) => bring(turn, store));
  });
}

/** Removes the ref of a pull request, if any. */
export async function forgetPull(
  options: Omit<BringOptions, 'imports'>,
  appId: string,
  number: number,
): Promise<void> {
  const { apps, paths } = options;
  if (!apps.get(appId)) return;
  const repository = paths.repository(appId);
  const ref = pullRef(number);
  await changeRefs(options, appId, async (store) => {
    const before = await resolveCommit(repository, ref);
    if (before === null) return;
    await store([{ ref, before, after: NO_SHA }]);
    await runGit(repository, ['update-ref', '-d', ref, before]);
  });
}

type Store = (updates: { ref: string; before: string; after: string }[]) => Promise<void>;

/**
 * Changes refs; the app cannot move meanwhile. If the app keeps its code in the bucket, `store` writes the refs there first.
 */
function changeRefs<T>(
  { apps, changes }: Pick<BringOptions, 'apps' | 'changes'>,
  appId: string,
  change: (store: Store) => Promise<T>,
): Promise<T> {
  const app = apps.get(appId)!;
  const stored = app.code?.repository;
  const run = () => change(async (updates) => stored?.store(updates));
  return changes.during(
    appId,
    app.changes.during(() => (stored ? stored.during(run) : run())),
  );
}
