// Deploys a folder by git: the commit of a repository, or the files of a folder without one.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { App } from '../../handlers/contract/apps/apps.ts';
import { Stopped, typed } from '../exit.ts';
import { type Session, whole } from '../session.ts';
import {
  CONFIGURATIONS,
  configurationOf,
  type GitRun,
  isRepository,
  linkedSlug,
  readGit,
  requireGit,
  runGit,
  withKey,
} from './folder.ts';

/** Name of the API keys that `keyed` creates and revokes. */
const TEMPORARY_KEY = 'cellar deploy (temporary)';
/** A temporary key of this age, in ms, is orphaned: no push takes this long. */
const ORPHANED_KEY_MS = 6 * 3_600_000;
/** Pathspecs of git: Wrangler configurations in any folder, and files that could make the root a project. */
const PROJECT_FILES = [
  ...CONFIGURATIONS.map((name) => `*${name}`),
  ...['html', 'js', 'mjs', 'ts', 'json'].map((ending) => `:(glob)*.${ending}`),
];
/** Excluded from a folder without a repository, which may lack a .gitignore: packages, caches of tools, local secrets. */
const NEVER_PUSHED = [
  'node_modules',
  '.wrangler',
  '.cellar',
  '.dev.vars*',
  '.env',
  '.env.local',
  '.env.*.local',
];
/** The author and committer of commits of a folder without a repository. */
const AUTHOR = {
  GIT_AUTHOR_NAME: 'cellar deploy',
  GIT_AUTHOR_EMAIL: 'cellar@localhost',
  GIT_COMMITTER_NAME: 'cellar deploy',
  GIT_COMMITTER_EMAIL: 'cellar@localhost',
};

/** Pushes the folder of a session to `main`. @returns the commit @throws {Stopped} when it cannot be pushed */
export async function pushFolder(session: Session, app: App): Promise<string> {
  const { folder } = session.place;
  if (!isRepository(folder)) return pushLooseFolder(session, app);
  if (requireGit(folder, 'status', '--porcelain') !== '') {
    const next = 'git add --all && git commit';
    throw new Stopped(
      'usage',
      'The folder has changes that are not committed; --upload deploys them as they are.',
      next,
    );
  }
  const sha = readGit(folder, 'rev-parse', '--verify', 'HEAD');
  if (sha === null)
    throw new Stopped('usage', 'The repository has no commit yet.', 'git add --all && git commit');
  await requireRoot(session, app);
  await push(session, app, {}, 'HEAD');
  return sha;
}

/** Checks that a push deploys the folder of a session, and not another one of its repository. @throws {Stopped} */
async function requireRoot(session: Session, app: App): Promise<void> {
  const { folder } = session.place;
  const top = readGit(folder, 'rev-parse', '--show-toplevel');
  const inside = readGit(folder, 'rev-parse', '--show-prefix')?.replace(/\/$/, '') ?? '';
  if (top === null || inside === '') return;
  const path = projectAround(top, inside);
  // A folder without a configuration is a part of the sources of the project around it.
  if (path === '' || (path === null && linkedSlug(folder) === app.slug)) return;
  const { root_directory } = await session.call('builds.get', { id: app.id });
  if (root_directory === (path ?? inside) || (root_directory === null && isOnlyProject(top, path))) return;
  throw new Stopped(
    'usage',
    `git pushes the whole repository, and the root directory of ${app.slug} is ${root_directory ?? 'not set'}. Set it to ${path ?? inside}, or deploy this folder alone with --upload.`,
    `cellar builds set --root-directory ${typed(path ?? inside)} --app ${app.slug}`,
  );
}

/** Returns the nearest folder with a configuration, at `inside` or above it in the repository `top`; null without one. */
function projectAround(top: string, inside: string): string | null {
  const words = inside.split('/');
  for (let length = words.length; length >= 0; length--) {
    const path = words.slice(0, length).join('/');
    if (configurationOf(join(top, path)) !== null) return path;
  }
  return null;
}

/** Whether a push deploys `path` without a root directory: it is the only project of the repository. */
function isOnlyProject(top: string, path: string | null): boolean {
  const files = readGit(top, 'ls-files', ...PROJECT_FILES)?.split('\n') ?? [];
  return files.length > 0 && files.every((file) => dirname(file) === path);
}

/** Pushes a folder without a repository: its files become a commit on top of the app's `main`. @returns the commit */
async function pushLooseFolder(session: Session, app: App): Promise<string> {
  const { folder, env, signal, say } = session.place;
  const scratch = mkdtempSync(join(tmpdir(), 'cellar-deploy-'));
  try {
    const own = { ...AUTHOR, GIT_DIR: join(scratch, 'git'), GIT_WORK_TREE: folder };
    const git = async (...words: string[]) => {
      const code = await runGit({ folder, env: { ...env, ...own }, say, signal }, ...words);
      if (code !== 0) throw new Stopped('failed', `git ${words[0]} failed.`);
    };
    await git('init', '--quiet', '--initial-branch=main');
    mkdirSync(join(own.GIT_DIR, 'info'), { recursive: true });
    writeFileSync(join(own.GIT_DIR, 'info', 'exclude'), NEVER_PUSHED.join('\n'));
    await keyed(session, app, async (withIt) => {
      const run: GitRun = { folder, env: { ...withIt, ...own }, say: () => {}, signal };
      const hasMain = (await runGit(run, 'fetch', '--quiet', '--depth=1', '--', app.git_url, 'main')) === 0;
      if (hasMain) await git('reset', '--quiet', '--soft', 'FETCH_HEAD');
    });
    await git('add', '--all');
    await git('commit', '--quiet', '--allow-empty', '--message=Deploy of a folder');
    await push(session, app, own, 'HEAD');
    const sha = readGit(folder, `--git-dir=${own.GIT_DIR}`, 'rev-parse', 'HEAD');
    if (sha === null) throw new Stopped('failed', 'git rev-parse failed.');
    return sha;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function push(session: Session, app: App, more: Record<string, string>, from: string): Promise<void> {
  const { folder, say, signal } = session.place;
  const code = await keyed(session, app, (env) =>
    runGit(
      { folder, env: { ...env, ...more }, say, signal },
      'push',
      '--',
      app.git_url,
      `${from}:refs/heads/main`,
    ),
  );
  if (code !== 0)
    throw new Stopped(
      'failed',
      'git push failed. The lines above say why.',
      `git pull --rebase ${app.git_url} main`,
    );
}

/** Revokes temporary keys of earlier deploys that were killed. */
async function revokeOrphanedKeys(session: Session, account: string): Promise<void> {
  const { items } = await whole((page) => session.call('keys.list', { account, ...page }));
  for (const { id, name, created_at } of items)
    if (name === TEMPORARY_KEY && Date.parse(created_at) < Date.now() - ORPHANED_KEY_MS)
      await session.call('keys.revoke', { id });
}

/** Runs git with an API key. If only the runner token is known, creates a temporary key and revokes it afterwards. */
async function keyed<Value>(
  session: Session,
  app: App,
  run: (env: Record<string, string | undefined>) => Promise<Value>,
): Promise<Value> {
  const { env } = session.place;
  const { key } = session.login;
  if (key !== null) return run(withKey(env, app.git_url, key));
  await revokeOrphanedKeys(session, app.owner);
  const made = await session.call('keys.create', { account: app.owner, name: TEMPORARY_KEY });
  try {
    return await run(withKey(env, app.git_url, made.key));
  } finally {
    // Not by `session.call`, which an interrupt aborts: the key must be revoked then too.
    await session.client.call('keys.revoke', { id: made.id });
  }
}
