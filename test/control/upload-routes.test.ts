// The host's routes to uploads.
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { Call } from '../../runtime/control/host-call.ts';
import { uploadRoutes } from '../../runtime/control/routes/upload-routes.ts';

test('an uploaded version stays until its deploy has ended, however long that takes', async (t) => {
  // All timeouts have passed, as after the longest wait for a deploy.
  t.mock.method(AbortSignal, 'timeout', () => AbortSignal.abort());
  const ended = Promise.withResolvers<void>();
  const fact = { id: 'v1', status: 'building' };
  const untilEnded = async (signal?: AbortSignal) => {
    if (!signal?.aborted) await ended.promise;
  };
  const events: string[] = [];
  let settled = Promise.resolve();
  const routes = uploadRoutes({
    disk: { shortage: null },
    apps: { get: () => ({}) },
    outbox: { flushed: async () => {} },
    requests: { upload: () => ({ fact, untilEnded }) },
    uploads: {
      drop: async (id: string) => void events.push(`${id} dropped`),
      deploying: (
        _app: string,
        _id: string,
        _owner: string,
        deploy: (...version: object[]) => Promise<void>,
      ) => {
        settled = deploy({}, {}).then(() => void events.push('not deploying'));
        return settled;
      },
    },
  } as unknown as Parameters<typeof uploadRoutes>[0]);
  const request = Readable.from([Buffer.from('{"owner":"a/b","message":"","author":"Ada"}')]);
  const call = { words: ['a', 'v1'], request } as unknown as Call;
  assert.equal(await routes['POST /apps/:id/versions/:deploy'](call), fact);
  assert.deepEqual(events, []);
  fact.status = 'live';
  ended.resolve();
  await settled;
  assert.deepEqual(events, ['v1 dropped', 'not deploying']);
});
