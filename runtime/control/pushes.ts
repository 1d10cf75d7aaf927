// Deploys pushes, and streams the log of the deploy to the pusher.
import type { Duplex } from 'node:stream';
import type { Apps } from '../apps/apps.ts';
import type { Deploy } from '../builds/deploy/deploy.ts';
import type { DeployRequests } from '../builds/queue/requests.ts';
import { DEPLOY_REF } from '../git/repository.ts';
import type { RefUpdate } from '../git/smart-http.ts';
import { reason } from '../log.ts';
import { BRANCHES, PREVIEWS, type Previews } from '../previews/previews.ts';
import type { Outbox } from './outbox.ts';

/** Longest wait of a push until its facts are in the control plane, in ms. */
const FLUSH_MS = 2_000;
const NO_SHA = '0'.repeat(40);
const NOT_MAIN = 'Only pushes to main deploy; nothing was deployed.\n';
const NO_PREVIEWS =
  'Only pushes to main deploy; nothing was deployed. With previews on (`cellar previews on`) other branches get an address of their own.\n';
const MAIN_DELETED = 'main was deleted; what serves now goes on.\n';

/** What a push needs of the rest of the host. */
export interface PushesOptions {
  apps: Apps;
  requests: DeployRequests;
  previews: Previews;
  outbox: Outbox;
  /** Returns the address of an app, by its slug. */
  urlOf: (slug: string) => string;
}

/** A deploy that a push has started, and the message to its pusher when it is live. */
interface Made {
  deploy: Deploy;
  served: () => string;
}

/** @returns a function that deploys a push, streams the deploy's log to `output` and ends it. Continues without the pusher. */
export function pushes(options: PushesOptions) {
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
  options: PushesOptions,
  appId: string,
  updates: RefUpdate[],
  say: (line: string) => void,
): Promise<Made | string> {
  const { apps } = options;
  const main = updates.find(({ ref }) => ref === DEPLOY_REF);
  const branches = updates.filter(({ ref }) => ref.startsWith(BRANCHES) && ref !== DEPLOY_REF);
  // Before the first await: the order of pushes must be the order of deploys.
  const deployed = main && main.after !== NO_SHA ? deployMain(options, appId, main) : null;
  // In parallel, so that a failed recording of the deploy is reported even while previews are removed.
  const [live, [first, ...others]] = await Promise.all([
    deployed && unlessRefused(deployed, `${nameOf(DEPLOY_REF)} was not deployed`, say),
    deployBranches(options, appId, branches, say),
  ]);
  const announced = live === null ? others : [...(first ? [first] : []), ...others];
  for (const { address } of announced) say(`▸ preview: ${address}, when it is built\n`);
  const made = live ?? first;
  if (made) return made;
  if (deployed !== null) return '';
  if (main) return MAIN_DELETED;
  const mayHavePreview = branches.some(({ after }) => after !== NO_SHA);
  if (!mayHavePreview) return NOT_MAIN;
  return apps.get(appId)?.wanted.previews?.branches ? '' : NO_PREVIEWS;
}

/** Deploys a push to main. */
async function deployMain(
  { apps, requests, urlOf }: PushesOptions,
  appId: string,
  { ref, after }: RefUpdate,
): Promise<Made> {
  const deploy = await requests.commit({ appId, sha: after, ref, trigger: 'push' });
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
  if (more > 0) say(`One push makes previews of ${PREVIEWS} branches: ${more} more have none.\n`);
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

/** Returns the name of a branch, by its ref. */
function nameOf(ref: string): string {
  return ref.slice(BRANCHES.length);
}
