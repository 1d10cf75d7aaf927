// Deploys pushes, and streams the log of the deploy to the pusher.
import type { Duplex } from 'node:stream';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Apps } from '../apps/apps.ts';
import type { Deploy } from '../builds/deploy/deploy.ts';
import { deployOn } from '../builds/queue/deploy-on.ts';
import type { DeployRequests } from '../builds/queue/requests.ts';
import { highestTag, type NamedCommit, TAGS } from '../git/named-commit.ts';
import { DEPLOY_REF } from '../git/repository.ts';
import type { RefUpdate } from '../git/smart-http.ts';
import { reason } from '../log.ts';
import { BRANCHES, PREVIEWS, type Previews } from '../previews/previews.ts';
import { SerialQueues } from '../queues/serial-queue.ts';
import type { Outbox } from './outbox.ts';

/** Longest wait of a push until its facts are in the control plane, in ms. */
const FLUSH_MS = 2_000;
const NO_SHA = '0'.repeat(40);
/** Texts that tell a pusher which pushes are deployed, by the app's setting. */
const RULES = {
  main: 'Only pushes to main deploy',
  tags: 'Only pushes of tags deploy',
  manual: 'Pushes do not deploy',
} as const;
type DeployOn = keyof typeof RULES;
const NO_PREVIEWS =
  'nothing was deployed. With previews on (`cellar previews on`) other branches get an address of their own.\n';
const MAIN_DELETED = 'main was deleted; the live release continues to serve.\n';

export interface PushesOptions {
  store: HostStore;
  apps: Apps;
  requests: DeployRequests;
  previews: Previews;
  outbox: Outbox;
  /** Returns the address of an app, by its slug. */
  urlOf: (slug: string) => string;
}

interface Pushing extends PushesOptions {
  /** Pushes of tags run one after another: each asks git which tag is the highest before its deploy is queued. */
  tagTurns: SerialQueues;
}

/** A deploy that a push has started, and the message to its pusher when it is live. */
interface Made {
  deploy: Deploy;
  served: () => string;
}

/**
 * Returns a function that deploys a push, streams the deploy's log to `output`, and ends `output`. The deploy continues when
 * the pusher disconnects.
 */
export function pushes(given: PushesOptions) {
  const options = { ...given, tagTurns: new SerialQueues() };
  return (appId: string, updates: RefUpdate[], output: Duplex): void => {
    deployAll(options, appId, updates, (line) => output.write(line))
      .then((made) => {
        if (typeof made === 'string') return output.end(made);
        return made.deploy.follow(output, async ({ status }) => {
          // So that the API shows the result of the push at once.
          await options.outbox.flushed(FLUSH_MS);
          return status === 'live' ? made.served() : '';
        });
      })
      .catch((error: unknown) => output.end(`This push was not deployed: ${reason(error)}\n`));
  };
}

/**
 * Deploys each ref by itself: a failure of one is reported with `say`, and the others continue.
 * @returns the deploy whose log the pusher follows, or why there is none
 */
async function deployAll(
  options: Pushing,
  appId: string,
  updates: RefUpdate[],
  say: (line: string) => void,
): Promise<Made | string> {
  const { apps } = options;
  const on = deployOn(options, appId);
  const main = updates.find(({ ref }) => ref === DEPLOY_REF);
  const branches = updates.filter(({ ref }) => ref.startsWith(BRANCHES) && ref !== DEPLOY_REF);
  // Before the first await: the order of pushes must be the order of deploys.
  const deployed = deployOwn(options, appId, on, updates);
  // In parallel, so that a rejection of `deployed` is handled at once, even while previews are removed.
  const [result, [first, ...others]] = await Promise.all([
    deployed && unlessRefused(deployed, `${on === 'tags' ? 'the tag' : 'main'} was not deployed`, say),
    deployBranches(options, appId, branches, say),
  ]);
  if (typeof result === 'string') say(result);
  const live = typeof result === 'string' ? null : result;
  const announced = live === null ? others : [...(first ? [first] : []), ...others];
  for (const { address } of announced) say(`▸ preview: ${address}, when it is built\n`);
  const made = live ?? first;
  if (made) return made;
  if (deployed !== null) return '';
  if (main) return MAIN_DELETED;
  const mayHavePreview = branches.some(({ after }) => after !== NO_SHA);
  if (!mayHavePreview) return `${RULES[on]}; nothing was deployed.\n`;
  return apps.get(appId)?.wanted.previews?.branches ? '' : `${RULES[on]}; ${NO_PREVIEWS}`;
}

/**
 * Deploys a push to the app itself.
 * @returns the deploy, or why nothing is deployed; null when the push has neither main nor tags to deploy
 */
function deployOwn(
  options: Pushing,
  appId: string,
  on: DeployOn,
  updates: RefUpdate[],
): Promise<Made | string> | null {
  const stored = updates.filter(({ after }) => after !== NO_SHA);
  const main = stored.find(({ ref }) => ref === DEPLOY_REF);
  if (on === 'main') return main ? deployMain(options, appId, { ref: main.ref, sha: main.after }) : null;
  const tags = stored.filter(({ ref }) => ref.startsWith(TAGS));
  if (on === 'tags' && tags.length > 0)
    return options.tagTurns.run(appId, () => deployTag(options, appId, tags));
  const ref = main?.ref ?? tags[0]?.ref;
  return ref === undefined ? null : Promise.resolve(storedOnly(ref, RULES[on]));
}

/** Deploys the pushed tag that has the highest version of all tags. @returns the deploy, or why nothing is deployed */
async function deployTag(
  options: PushesOptions,
  appId: string,
  tags: readonly RefUpdate[],
): Promise<Made | string> {
  const highest = await options.apps.withRepository(appId, highestTag);
  if (highest === null) return 'The tag with the highest version has no commit; nothing was deployed.\n';
  if (tags.some(({ ref }) => ref === highest.ref)) return deployMain(options, appId, highest);
  return storedOnly(tags[0]!.ref, `${nameOf(highest.ref)} has a higher version`);
}

function storedOnly(ref: string, why: string): string {
  const name = nameOf(ref);
  return `${name} is stored. ${why}; nothing was deployed. \`cellar deploy --ref ${name}\` deploys it.\n`;
}

/** Deploys a pushed commit to the app itself. */
async function deployMain(
  { apps, requests, urlOf }: PushesOptions,
  appId: string,
  commit: NamedCommit,
): Promise<Made> {
  const deploy = await requests.commit({ appId, ...commit, trigger: 'push' });
  const served = () => {
    const app = apps.get(appId)?.wanted;
    if (!app) return '';
    return app.desired_state === 'stopped'
      ? '\nThis push is live once the app is started\n'
      : `\n${urlOf(app.slug)} serves this push\n`;
  };
  return { deploy, served };
}

/**
 * Deploys pushed branches to their previews, if the app has these enabled. Removes the previews of deleted branches.
 * @returns the started deploys
 */
async function deployBranches(
  { apps, previews, urlOf }: PushesOptions,
  appId: string,
  branches: RefUpdate[],
  say: (line: string) => void,
): Promise<(Made & { address: string })[]> {
  for (const { ref, after } of branches) {
    const failure = `the preview of ${nameOf(ref)} was not removed`;
    if (after === NO_SHA) await unlessRefused(previews.branchDeleted(appId, ref), failure, say);
  }
  if (!apps.get(appId)?.wanted.previews?.branches) return [];
  const pushed = branches.filter(({ after }) => after !== NO_SHA);
  const more = pushed.length - PREVIEWS;
  if (more > 0)
    say(`One push makes previews of at most ${PREVIEWS} branches: ${more} more branches got none.\n`);
  const deployed = pushed.slice(0, PREVIEWS).map(({ ref, after }) => {
    const made = previews.push(appId, ref, after).then(({ slug, deploy }) => {
      const address = urlOf(slug);
      return { deploy, address, served: () => `\n${address} shows this push\n` };
    });
    return unlessRefused(made, `${nameOf(ref)} was not deployed`, say);
  });
  return (await Promise.all(deployed)).filter((made) => made !== null);
}

/** @returns the result of `work`; `null` when it fails, which is reported with `say` */
async function unlessRefused<T>(
  work: Promise<T>,
  failure: string,
  say: (line: string) => void,
): Promise<T | null> {
  try {
    return await work;
  } catch (error) {
    say(`${failure}: ${reason(error)}\n`);
    return null;
  }
}

/** Returns the name of a branch or a tag, by its ref. */
function nameOf(ref: string): string {
  return ref.slice((ref.startsWith(TAGS) ? TAGS : BRANCHES).length);
}
