import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { KnownApps, OtherApps } from '../../../runtime/apps/known/known-apps.ts';
import { checkServices, requireServices } from '../../../runtime/builds/release/check-services.ts';
import { makeRelease } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const NAMED = { services: [{ binding: 'AUTH', service: 'auth' }] };

/** Makes an app. @param others whether there are other hosts @param learns whether they know the app `auth` */
function owned(others: boolean, learns: boolean) {
  let isKnown = false;
  const askNow = async () => {
    isKnown = learns;
  };
  const apps = {
    siblingOf: () => (isKnown ? 'b' : null),
    originOf: (id) => id,
    slugOf: () => undefined,
    consumersOf: () => [],
    others: others ? ({ askNow } as unknown as OtherApps) : null,
  } satisfies Pick<KnownApps, 'slugOf' | 'siblingOf' | 'originOf' | 'consumersOf' | 'others'>;
  return { appId: 'a', apps, isPushed: true };
}

test('a deploy finds an app that was made at another host a moment ago, and still names a missing one', async () => {
  assert.equal((await requireServices(NAMED, owned(true, true))).size, 0);
  await assert.rejects(requireServices(NAMED, owned(true, false)), BuildFailure);
  await assert.rejects(requireServices(NAMED, owned(false, true)), /AUTH is bound to auth, and the owner/);
});

test('a deploy warns of a queue that another app consumes too, but not for a preview', async (t) => {
  const consumer = { queue: 'jobs' };
  const triggers = { crons: [], producers: [], consumers: [consumer, { queue: 'other' }] };
  const { directory } = await makeRelease(temporaryDirectory(t), 'export default {}', { triggers });
  const { apps, ...own } = owned(false, true);
  const shared = {
    ...apps,
    slugOf: () => 'worker',
    consumersOf: (_: string, queue: string) => (queue === 'jobs' ? ['b'] : []),
  };
  const log = { line: () => {} };
  assert.deepEqual(await checkServices(directory, { ...own, apps: shared }, log), {
    consumes: ['jobs', 'other'],
    warnings: [
      'queues: jobs is also consumed by worker: all sends of other apps to it fail until only one app consumes it',
    ],
  });
  const ofPreview = { ...own, apps: { ...shared, originOf: () => 'b' } };
  assert.deepEqual((await checkServices(directory, ofPreview, log)).warnings, []);
});

test('a deploy names a few of the many apps that consume a queue', async (t) => {
  const triggers = { crons: [], producers: [], consumers: [{ queue: 'jobs' }] };
  const { directory } = await makeRelease(temporaryDirectory(t), 'export default {}', { triggers });
  const { apps, ...own } = owned(false, true);
  const consumersOf = () => Array.from({ length: 500 }, (_, n) => `app-${n}`);
  const shared = { ...own, apps: { ...apps, consumersOf } };
  const few = /app-0, app-1, app-2, app-3, app-4 and 495 more[:;]/;
  assert.match((await checkServices(directory, shared, { line: () => {} })).warnings[0]!, few);
  const sends = { triggers: { ...triggers, producers: [{ binding: 'JOBS', queue: 'jobs' }], consumers: [] } };
  await assert.rejects(requireServices(sends, shared), few);
});
