// Commands that deploy, that list, cancel and roll back deploys, and that split requests between two versions.
import { setTimeout as sleep } from 'node:timers/promises';
import { Refused } from '../../client/index.ts';
import type { App } from '../../handlers/contract/apps/apps.ts';
import type { Deploy } from '../../handlers/contract/apps/deploys.ts';
import type { Result } from '../../handlers/contract/index.ts';
import { type Command, command, textOf } from '../command.ts';
import { Stopped } from '../exit.ts';
import { hasGit } from '../git/folder.ts';
import { pushFolder } from '../git/push.ts';
import { type Session, whole } from '../session.ts';
import { ago, firstLine, plain, shownCommit, shownDeploy, status, table, took } from '../show.ts';

/** Poll interval of a running deploy, in ms. */
const POLL_MS = 300;
/** Maximum wait for a deploy, in ms. Its install, build and release commands may each take `RUNNER_BUILD_TIMEOUT_S`. */
const DEADLINE_MS = 3 * 60 * 60_000;
/** Number of newest deploys in which the deploy of a push is searched. */
const NEWEST = 20;
/** Maximum lines shown from the end of a failed deploy's log. */
const LAST_LINES = 20;
/**
 * A deploy in one of these statuses does not serve. A pushed commit is deployed again if each of its deploys has
 * one of these statuses, or was made before the push and failed.
 */
const ENDED: Deploy['status'][] = ['replaced', 'superseded', 'cancelled'];
const DEPLOY = { name: 'deploy', summary: 'the id of the deploy, as `cellar deploys` lists it' };

export const deployCommands: readonly Command[] = [
  command({
    words: 'deploy',
    summary:
      'Deploys the folder by git or by upload, a built folder, or a ref, and waits. If the deploy fails, the exit code is 1',
    ofApp: true,
    options: [
      {
        flags: '--upload',
        summary:
          'bundles the folder on this machine and uploads the result, with changes that are not committed; needs no git',
      },
      {
        flags: '--dir <folder>',
        summary:
          'deploys a built folder, such as dist, as a static site without a configuration; needs no git',
      },
      {
        flags: '--ref <ref>',
        summary: "deploys a tag, a branch or a commit of the app's repository instead of the folder",
      },
      { flags: '-e, --env <name>', summary: 'uploads this environment of the Wrangler configuration' },
    ],
    examples: ['deploy', 'deploy --app shop', 'deploy --upload', 'deploy --dir dist', 'deploy --ref v1.4'],
    answers: 'deploys.create',
    run: async (session, input) => {
      const ref = textOf(input, 'ref');
      const directory = textOf(input, 'dir');
      const isUpload = input.upload === true || input.env !== undefined;
      if ([ref !== undefined, directory !== undefined, isUpload].filter(Boolean).length > 1)
        throw new Stopped('usage', 'Give only one of --ref, --dir and --upload; --env implies --upload.');
      const app = await appToDeploy(session);
      if (ref !== undefined) {
        const begun = await session.call('deploys.create', { id: app.id, ref });
        return succeeded(session, app, await finished(session, app.id, begun, true));
      }
      if (directory !== undefined) {
        const { deployFolder } = await import('../static-folder.ts');
        const begun = await deployFolder(session, app, directory);
        return succeeded(session, app, await finished(session, app.id, begun, true));
      }
      if (isUpload || !hasGit()) {
        const { uploadFolder } = await import('../upload.ts');
        const environment = textOf(input, 'env') ?? session.place.env.CLOUDFLARE_ENV ?? null;
        const deploy_id = await uploadFolder(session, app, environment);
        const deploy = await session.call('deploys.get', { id: app.id, deploy_id });
        return succeeded(session, app, deploy);
      }
      const newest = () => session.call('deploys.list', { id: app.id, limit: NEWEST });
      const before = new Set((await newest()).items.map(({ id }) => id));
      const sha = await pushFolder(session, app);
      const { items } = await newest();
      const isOver = ({ id, status }: Deploy) =>
        ENDED.includes(status) || (status === 'failed' && before.has(id));
      const deploy =
        items.find((each) => each.sha === sha && !isOver(each)) ??
        // The push started no deploy if pushes do not deploy this app, or if `main` had the commit before.
        (await session.call('deploys.create', { id: app.id, ref: sha }));
      // If the deploy ended during the push, git has shown its log.
      const isLogShown = deploy.status !== 'queued' && deploy.status !== 'building';
      return succeeded(session, app, await finished(session, app.id, deploy, false), { isLogShown });
    },
    show: shownDeploy,
  }),
  command({
    words: 'redeploy',
    summary: 'Builds and deploys the tip of main again, or the commit of an earlier deploy',
    ofApp: true,
    arguments: [{ ...DEPLOY, optional: true }],
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
    summary: 'Cancels a deploy that is queued or building; the live release does not change',
    ofApp: true,
    arguments: [DEPLOY],
    examples: ['cancel 0f9q2t6m8r4kx1zb'],
    answers: 'deploys.cancel',
    run: (session, { deploy }) =>
      session.call('deploys.cancel', { id: session.app(), deploy_id: String(deploy) }),
    show: shownDeploy,
  }),
  command({
    words: 'deploys list',
    summary: 'Lists deploys, newest first',
    ofApp: true,
    examples: ['deploys', 'deploys list --app shop'],
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
    words: 'deploys log',
    summary: 'Prints the log of a deploy; by default of the newest',
    ofApp: true,
    arguments: [{ ...DEPLOY, optional: true }],
    examples: ['deploys log', 'deploys log 0f9q2t6m8r4kx1zb'],
    answers: 'deploys.log',
    run: async (session, { deploy }) => {
      const id = session.app();
      const deploy_id = typeof deploy === 'string' ? deploy : (await newestDeploy(session, id))?.id;
      if (deploy_id === undefined)
        throw new Stopped('notFound', 'Nothing was deployed yet.', 'cellar deploy');
      return session.call('deploys.log', { id, deploy_id });
    },
    show: ({ log }) => plain(log),
  }),
  command({
    words: 'rollback',
    summary: 'Makes an earlier release live again, without a build; by default the one before',
    ofApp: true,
    arguments: [{ ...DEPLOY, optional: true }],
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
  command({
    words: 'split get',
    summary: 'Shows which versions serve the app, each with its percentage of the requests',
    ofApp: true,
    examples: ['split'],
    answers: 'split.get',
    run: (session) => session.call('split.get', { id: session.app() }),
    show: shownSplit,
  }),
  command({
    words: 'split set',
    summary: 'Lets two versions share the requests of an app without stored data, or gives one all of them',
    ofApp: true,
    arguments: [
      { name: 'version', summary: 'the id and percentage of a version, such as `0f9q2t6m8r4kx1zb@90`' },
      { name: 'other', summary: 'the id and percentage of the other version', optional: true },
    ],
    examples: ['split set 0f9q2t6m8r4kx1zb@90 0f9q2t8d3v7ny5wc@10', 'split set 0f9q2t8d3v7ny5wc@100'],
    answers: 'split.set',
    run: (session, { version, other }) => {
      const versions = [version, other].flatMap((each) => (typeof each === 'string' ? weighted(each) : []));
      return session.call('split.set', { id: session.app(), versions });
    },
    show: shownSplit,
  }),
];

/** Parses `version@percentage`. @throws {Stopped} for a version without a percentage */
function weighted(text: string): { version: string; percentage: number } {
  const [, version, percentage] = /^([^@]+)@(\d+(?:\.\d+)?)%?$/.exec(text) ?? [];
  if (version === undefined)
    throw new Stopped('usage', `Give "${text}" a percentage, such as ${text.replace(/@.*/, '')}@50.`);
  return { version, percentage: Number(percentage) };
}

function shownSplit({ versions }: Result<'split.get'>): string {
  return table(
    ['VERSION', 'SHARE', 'MADE', 'TAG', 'MESSAGE'],
    versions.map(({ id, percentage, created_at, tag, message }) => [
      id,
      `${percentage} %`,
      ago(created_at),
      plain(tag),
      plain(firstLine(message)),
    ]),
    'Nothing was deployed yet. Next: cellar deploy',
  );
}

/** Returns the app. @throws {Stopped} when it does not exist, with the command that creates it */
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

/**
 * Polls a deploy until it ends.
 * @param saysSteps whether to print each finished step
 * @throws {Stopped} when it does not end within `DEADLINE_MS`
 */
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
      throw new Stopped(
        'failed',
        `The deploy ${deploy.id} did not end in time. It is still ${deploy.status}.`,
        'cellar deploys',
      );
    await sleep(POLL_MS, undefined, { signal: session.place.signal });
    deploy = await session.call('deploys.get', { id, deploy_id: begun.id });
  }
}

/**
 * Checks that a deploy went live. If it failed, prints the end of its log.
 * @param app its state before the deploy
 * @param isLogShown whether the log was printed already
 * @throws {Stopped} when the deploy did not go live
 */
export async function succeeded(
  session: Session,
  app: App,
  deploy: Deploy,
  { isLogShown = false } = {},
): Promise<Deploy> {
  if (deploy.status === 'live' || deploy.status === 'replaced') {
    session.place.say(`The deploy is live at ${app.url}\n`);
    return deploy;
  }
  if (deploy.status === 'cancelled')
    throw new Stopped('failed', 'The deploy was cancelled.', 'cellar redeploy');
  if (deploy.status === 'superseded')
    throw new Stopped(
      'failed',
      'The deploy was not built, because a newer push came first.',
      'cellar deploys',
    );
  if (!isLogShown) {
    const { log } = await session.call('deploys.log', { id: app.id, deploy_id: deploy.id });
    session.place.say(`${plain(log).trimEnd().split('\n').slice(-LAST_LINES).join('\n')}\n`);
  }
  const serves = app.live_deploy_id === null ? '' : '\nThe release before it still serves.';
  throw new Stopped(
    'failed',
    `The deploy failed: ${plain(deploy.error ?? 'see its log')}${serves}`,
    `cellar deploys log ${deploy.id}`,
  );
}

/** Returns the newest deploy of an app; undefined when there is none. */
export async function newestDeploy(session: Session, id: string): Promise<Deploy | undefined> {
  return (await session.call('deploys.list', { id, limit: 1 })).items[0];
}

/** Returns the id of the newest deploy before the live one that can be rolled back to. @throws {Stopped} without one */
async function releaseBefore(session: Session, app: App): Promise<string> {
  const { items } = await session.call('deploys.list', { id: app.id, limit: 200 });
  const live = items.findIndex(({ id }) => id === app.live_deploy_id);
  const earlier = items.slice(live + 1).find((deploy) => deploy.can_roll_back);
  if (earlier !== undefined) return earlier.id;
  throw new Stopped('notFound', 'The app has no earlier release to roll back to.', 'cellar deploys');
}
