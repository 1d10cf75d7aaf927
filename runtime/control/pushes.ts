// Deploys what was pushed, and has the pusher follow the log of the deploy.
import type { Duplex } from 'node:stream';
import type { Apps } from '../apps/apps.ts';
import type { Deploy } from '../builds/deploy.ts';
import type { DeployRequests } from '../builds/requests.ts';
import { DEPLOY_REF } from '../git/repository.ts';
import type { RefUpdate } from '../git/smart-http.ts';
import { reason } from '../log.ts';
import { BRANCHES, PREVIEWS, type Previews } from '../previews/previews.ts';
import type { Outbox } from './outbox.ts';

/** Longest wait of a push for its facts to reach the control plane, in ms. */
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
  /** The address of an app, by its slug. */
  urlOf: (slug: string) => string;
}

/** A deploy that a push has made, and what its pusher is told when it serves. */
interface Made {
  deploy: Deploy;
  served: () => string;
}

/** @returns a function that deploys a push, writes the deploy's log to `output` and ends that. The deploy goes on if the pusher leaves. */
export function pushes(options: PushesOptions) {
  return (appId: string, updates: RefUpdate[], output: Duplex): void => {
    deployAll(options, appId, updates, (line) => output.write(line))
      .then((made) => {
        if (typeof made === 'string') return output.end(made);
        return made.deploy.follow(output, async ({ status }) => {
          // So that whoever asks the API after the push sees what the push did.
          await options.outbox.flushed(FLUSH_MS);
          return status === 'live' ? made.served() : '';
        });
      })
      .catch((error: unknown) => output.end(`This push was not deployed: ${reason(error)}\n`));
  };
}

/** @returns the deploy whose log the pusher follows, or why there is none */
async function deployAll(
  options: PushesOptions,
  appId: string,
  updates: RefUpdate[],
  say: (line: string) => void,
): Promise<Made | string> {
  const { apps, requests, urlOf } = options;
  const main = updates.find(({ ref }) => ref === DEPLOY_REF);
  const branches = updates.filter(({ ref }) => ref.startsWith(BRANCHES) && ref !== DEPLOY_REF);
  // Before anything is awaited: the order of pushes is the order of deploys.
  const deployed =
    main && main.after !== NO_SHA
      ? requests.commit({ appId, sha: main.after, ref: main.ref, trigger: 'push' })
      : null;
  // Both at once: a deploy that cannot be recorded is heard of also while previews are removed.
  const [deploy, [first, ...others]] = await Promise.all([
    deployed,
    deployBranches(options, appId, branches, say),
  ]);
  const told = deploy === null ? others : [...(first ? [first] : []), ...others];
  for (const { address } of told) say(`▸ preview: ${address}, when it is built\n`);
  if (deploy === null) {
    if (first) return first;
    if (main) return MAIN_DELETED;
    const mayHavePreview = branches.some(({ after }) => after !== NO_SHA);
    return mayHavePreview && !apps.get(appId)?.wanted.previews?.branches ? NO_PREVIEWS : NOT_MAIN;
  }
  const served = () => {
    const app = apps.get(appId)?.wanted;
    if (!app) return '';
    return app.desired_state === 'stopped'
      ? '\nThis push is live once the app is started\n'
      : `\n${urlOf(app.slug)} serves this push\n`;
  };
  return { deploy, served };
}

/** Deploys pushed branches to their previews, where the app has them on, and removes the previews of deleted branches. */
async function deployBranches(
  { apps, previews, urlOf }: PushesOptions,
  appId: string,
  branches: RefUpdate[],
  say: (line: string) => void,
): Promise<(Made & { address: string })[]> {
  for (const { ref, after } of branches) if (after === NO_SHA) await previews.branchDeleted(appId, ref);
  if (!apps.get(appId)?.wanted.previews?.branches) return [];
  const pushed = branches.filter(({ after }) => after !== NO_SHA);
  const more = pushed.length - PREVIEWS;
  if (more > 0) say(`One push makes previews of ${PREVIEWS} branches: ${more} more have none.\n`);
  return Promise.all(
    pushed.slice(0, PREVIEWS).map(async ({ ref, after }) => {
      const { slug, deploy } = await previews.push(appId, ref, after);
      const address = urlOf(slug);
      return { deploy, address, served: () => `\n${address} shows this push\n` };
    }),
  );
}
