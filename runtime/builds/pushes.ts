// What a push comes to: a deploy whose log the pusher follows.
import type { Duplex } from 'node:stream';
import type { DeployFact } from '../../handlers/contract/host-calls.ts';
import type { Apps } from '../apps/apps.ts';
import type { Outbox } from '../control/outbox.ts';
import { DEPLOY_REF } from '../git/repository.ts';
import type { RefUpdate } from '../git/smart-http.ts';
import { reason } from '../log.ts';
import type { DeployQueue } from './queue.ts';

/** A push waits so long for its facts to reach the control plane. */
const FLUSH_MS = 2_000;
const NO_SHA = '0'.repeat(40);
const NOT_MAIN = 'Only pushes to main deploy; nothing was deployed.\n';
const MAIN_DELETED = 'main was deleted; what serves now goes on.\n';

/** What a push needs of the rest of the host. */
export interface PushesOptions {
  apps: Apps;
  queue: DeployQueue;
  outbox: Outbox;
  /** The address of an app, by its slug. */
  urlOf: (slug: string) => string;
}

/** Makes what deploys each push and writes the log to `output`, then ends that. The deploy goes on if the pusher leaves. */
export function pushes({ apps, queue, outbox, urlOf }: PushesOptions) {
  return (appId: string, updates: RefUpdate[], output: Duplex): void => {
    const update = updates.find(({ ref }) => ref === DEPLOY_REF);
    if (!update || update.after === NO_SHA) {
      output.end(update ? MAIN_DELETED : NOT_MAIN);
      return;
    }
    const last = async ({ status }: DeployFact) => {
      // So that whoever asks the API after the push sees what the push did.
      await outbox.flushed(FLUSH_MS);
      const app = apps.get(appId)?.wanted;
      if (status !== 'live' || !app) return '';
      return app.desired_state === 'stopped'
        ? '\nThis push is live once the app is started\n'
        : `\n${urlOf(app.slug)} serves this push\n`;
    };
    queue
      .request({ appId, sha: update.after, ref: update.ref, trigger: 'push' })
      .then((deploy) => deploy.follow(output, last))
      .catch((error: unknown) => output.end(`This push was not deployed: ${reason(error)}\n`));
  };
}
