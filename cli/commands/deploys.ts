// Deploys: of the folder, and going back.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Refused } from '../../client/index.ts';
import type { App } from '../../handlers/contract/apps.ts';
import type { Deploy } from '../../handlers/contract/deploys.ts';
import { type Command, command, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { type GitRun, hasGit, isRepository, readGit, runGit, withKey } from '../folder.ts';
import { type Session, whole } from '../session.ts';
import { ago, plain, shownCommit, shownDeploy, status, table, took } from '../show.ts';

/** How often a deploy that was begun is asked about, in ms. */
const LOOK_MS = 300;
/** Longer than the steps of a deploy may take together. */
const DEADLINE_MS = 30 * 60_000;
/** Deploys among which the new one is looked for. */
const NEWEST = 20;
/** The name of an API key that is made for one push, and the age, in ms, from which on it was left over: no push takes this long. */
const TEMPORARY_KEY = 'cellar deploy (temporary)';
const KEY_LEFT_MS = 6 * 3_600_000;
/** Lines of the log of a failed deploy that are shown. */
const LAST_LINES = 20;
/** Files that are left out of a folder without a repository, which may have no .gitignore: packages, caches of tools, and local secrets. */
const NEVER_PUSHED = [
  'node_modules',
  '.wrangler',
  '.cellar',
  '.dev.vars*',
  '.env',
  '.env.local',
  '.env.*.local',
];
/** The author of commits of a folder that is no repository. */
const AUTHOR = {
  GIT_AUTHOR_NAME: 'cellar deploy',
  GIT_AUTHOR_EMAIL: 'cellar@localhost',
  GIT_COMMITTER_NAME: 'cellar deploy',
  GIT_COMMITTER_EMAIL: 'cellar@localhost',
};

export const deployCommands: readonly Command[] = [
  command({
    words: 'deploy',
    summary: 'Deploys the folder by git or by upload, waits, and ends with 1 when that failed',
    ofApp: true,
    options: [
      {
        flags: '--upload',
        summary:
          'bundles it on this machine and sends that, with changes that are not committed; it needs no git',
      },
      { flags: '-e, --env <name>', summary: 'with --upload: the environment of the Wrangler configuration' },
    ],
    examples: ['deploy', 'deploy --app shop', 'deploy --upload'],
    answers: 'deploys.create',
    run: async (session, input) => {
      const app = await appToDeploy(session);
      if (input.upload === true || !hasGit()) {
        const { uploadFolder } = await import('../upload.ts');
        const environment = textOf(input, 'env') ?? session.place.env.CLOUDFLARE_ENV ?? null;
        const deploy_id = await uploadFolder(session, app, environment);
        const deploy = await session.call('deploys.get', { id: app.id, deploy_id });
        return succeeded(session, app, deploy);
      }
      const sha = await pushFolder(session, app);
      const { items } = await session.call('deploys.list', { id: app.id, limit: NEWEST });
      const deploy = items.find((each) => each.sha === sha);
      if (deploy === undefined) throw new Stopped('failed', 'The push led to no deploy.', 'cellar deploys');
      // Git has shown the log of a deploy that ended with the push.
      const isTold = deploy.status !== 'queued' && deploy.status !== 'building';
      return succeeded(session, app, await finished(session, app.id, deploy, false), { isTold });
    },
    show: shownDeploy,
  }),
  command({
    words: 'redeploy',
    summary: 'Builds and deploys the tip of main again, or the commit of an earlier deploy',
    ofApp: true,
    arguments: [{ name: 'deploy', summary: 'its id, as `cellar deploys` lists it', optional: true }],
    examples: ['redeploy', 'redeploy 0f9q2t6m8r4kx1zb'],
    answers: 'deploys.create',
    run: async (session, { deploy }) => {
      const app = await session.call('apps.get', { id: session.app() });
      const from = typeof deploy === 'string' ? { deploy_id: deploy } : {};
      const begun = await session.call('deploys.create', { id: app.id, ...from });
      return succeeded(session, app, await finished(session, app.id, begun, true));
    },
    show: shownDeploy,
  }),
  command({
    words: 'cancel',
    summary: 'Ends a deploy that waits or builds; what served before it still serves',
    ofApp: true,
    arguments: [{ name: 'deploy', summary: 'its id, as `cellar deploys` lists it' }],
    examples: ['cancel 0f9q2t6m8r4kx1zb'],
    answers: 'deploys.cancel',
    run: (session, { deploy }) =>
      session.call('deploys.cancel', { id: session.app(), deploy_id: String(deploy) }),
    show: shownDeploy,
  }),
  command({
    words: 'deploys',
    summary: 'Lists deploys, newest first',
    ofApp: true,
    examples: ['deploys'],
    answers: 'deploys.list',
    run: (session) => {
      const id = session.app();
      return whole((page) => session.call('deploys.list', { id, ...page }));
    },
    show: ({ items }) =>
      table(
        ['DEPLOY', 'STATUS', 'WHEN', 'ROLLBACK', 'COMMIT'],
        items.map((deploy) => [
          deploy.id,
          status(deploy.status),
          ago(deploy.started_at),
          deploy.can_roll_back ? 'yes' : 'no',
          shownCommit(deploy),
        ]),
        'Nothing was deployed yet. Next: cellar deploy',
      ),
  }),
  command({
    words: 'rollback',
    summary: 'Makes an earlier release live again, without a build; by default the one before',
    ofApp: true,
    arguments: [{ name: 'deploy', summary: 'its id, as `cellar deploys` lists it', optional: true }],
    examples: ['rollback', 'rollback 0f9q2t6m8r4kx1zb --app shop'],
    answers: 'deploys.rollback',
    run: async (session, { deploy }) => {
      const app = await session.call('apps.get', { id: session.app() });
      const deploy_id = typeof deploy === 'string' ? deploy : await releaseBefore(session, app);
      const begun = await session.call('deploys.rollback', { id: app.id, deploy_id });
      return succeeded(session, app, await finished(session, app.id, begun, true));
    },
    show: shownDeploy,
  }),
];

/** @throws {Stopped} when it is not there, with the command that makes it */
async function appToDeploy(session: Session): Promise<App> {
  const id = session.app();
  try {
    return await session.call('apps.get', { id });
  } catch (error) {
    if (error instanceof Refused && error.problem.code === 'app_not_found')
      throw new Stopped('notFound', `There is no app ${id} that you may deploy to.`, `cellar create ${id}`);
    throw error;
  }
}

/** Follows a deploy to its end, and says each step that ends. */
export async function finished(
  session: Session,
  id: string,
  begun: Deploy,
  saysSteps: boolean,
): Promise<Deploy> {
  const said = new Set<string>();
  const deadline = Date.now() + DEADLINE_MS;
  for (let deploy = begun; ; ) {
    for (const step of saysSteps ? deploy.steps : []) {
      if (step.duration_ms === null || said.has(step.name)) continue;
      said.add(step.name);
      session.place.say(`▸ ${step.name}: ${took(step.duration_ms)}\n`);
    }
    if (deploy.status !== 'queued' && deploy.status !== 'building') return deploy;
    if (Date.now() > deadline)
      throw new Stopped('failed', `The deploy ${deploy.id} does not end.`, 'cellar deploys');
    await sleep(LOOK_MS, undefined, { signal: session.place.signal });
    deploy = await session.call('deploys.get', { id, deploy_id: begun.id });
  }
}

/**
 * @param app as it was before the deploy
 * @param isTold whether the log was shown before
 * @throws {Stopped} when it did not go live, after the end of its log
 */
export async function succeeded(
  session: Session,
  app: App,
  deploy: Deploy,
  { isTold = false } = {},
): Promise<Deploy> {
  if (deploy.status === 'live' || deploy.status === 'replaced') {
    session.place.say(`${app.url} serves it\n`);
    return deploy;
  }
  if (deploy.status === 'cancelled')
    throw new Stopped('failed', 'The deploy was cancelled.', 'cellar redeploy');
  if (deploy.status === 'superseded')
    throw new Stopped('failed', 'A newer push came before this one was built.', 'cellar deploys');
  if (!isTold) {
    const { log } = await session.call('deploys.log', { id: app.id, deploy_id: deploy.id });
    session.place.say(`${log.trimEnd().split('\n').slice(-LAST_LINES).join('\n')}\n`);
  }
  const serves = app.live_deploy_id === null ? '' : '\nThe release before it still serves.';
  throw new Stopped('failed', `The deploy failed: ${plain(deploy.error ?? 'see its log')}${serves}`);
}

/** The newest deploy before the live one that can be gone back to. */
async function releaseBefore(session: Session, app: App): Promise<string> {
  const { items } = await session.call('deploys.list', { id: app.id, limit: 200 });
  const live = items.findIndex(({ id }) => id === app.live_deploy_id);
  const earlier = items.slice(live + 1).find((deploy) => deploy.can_roll_back);
  if (earlier !== undefined) return earlier.id;
  throw new Stopped('notFound', 'There is no earlier release to go back to.', 'cellar deploys');
}

/** Pushes what the folder has to `main`. @returns the commit */
async function pushFolder(session: Session, app: App): Promise<string> {
  const { folder } = session.place;
  if (!isRepository(folder)) return pushLooseFolder(session, app);
  const changed = readGit(folder, 'status', '--porcelain');
  if (changed !== '') {
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
  await push(session, app, {}, 'HEAD');
  return sha;
}

/** The same for a folder that is no repository: its files become a commit behind what `main` has. */
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
    const options = { cwd: folder, env: { ...env, ...own } };
    await push(session, app, own, 'HEAD');
    const sha = readGit(options.cwd, `--git-dir=${own.GIT_DIR}`, 'rev-parse', 'HEAD');
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
      'git push failed, as it says above.',
      `git pull --rebase ${app.git_url} main`,
    );
}

/** Revokes keys of earlier deploys that were killed before they could do so. */
async function revokeLeft(session: Session, account: string): Promise<void> {
  const { items } = await whole((page) => session.call('keys.list', { account, ...page }));
  for (const { id, name, created_at } of items)
    if (name === TEMPORARY_KEY && Date.parse(created_at) < Date.now() - KEY_LEFT_MS)
      await session.call('keys.revoke', { id });
}

/** Runs git with an API key. Where only the runner token is known, a key is made for it and revoked after. */
async function keyed<Value>(
  session: Session,
  app: App,
  run: (env: Record<string, string | undefined>) => Promise<Value>,
): Promise<Value> {
  const { env } = session.place;
  const { key } = session.login;
  if (key !== null) return run(withKey(env, app.git_url, key));
  await revokeLeft(session, app.owner);
  const made = await session.call('keys.create', { account: app.owner, name: TEMPORARY_KEY });
  try {
    return await run(withKey(env, app.git_url, made.key));
  } finally {
    await session.call('keys.revoke', { id: made.id });
  }
}
