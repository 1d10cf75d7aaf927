// The host's routes to previews.
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { Call } from '../../runtime/control/host-call.ts';
import { previewRoutes } from '../../runtime/control/routes/preview-routes.ts';
import { eventually } from '../support/processes.ts';

test('a promoted version leaves the uploads however long its deploy takes', async (t) => {
  // All timeouts have passed, as after the longest wait for a deploy.
  t.mock.method(AbortSignal, 'timeout', () => AbortSignal.abort());
  const ended = Promise.withResolvers<void>();
  const fact = { id: 'd1', status: 'building' };
  const untilEnded = async (signal?: AbortSignal) => {
    if (!signal?.aborted) await ended.promise;
  };
  const dropped: string[] = [];
  const routes = previewRoutes({
    disk: { shortage: null },
    outbox: { flushed: async () => {} },
    previews: { promote: () => ({ fact, untilEnded }) },
    uploads: { drop: async (id: string) => void dropped.push(id) },
  } as unknown as Parameters<typeof previewRoutes>[0]);
  const request = Readable.from([Buffer.from('{"author":"Ada"}')]);
  const call = { words: ['a', 'p'], request } as unknown as Call;
  await routes['POST /apps/:id/previews/:preview/promote'](call);
  assert.deepEqual(dropped, []);
  fact.status = 'live';
  ended.resolve();
  await eventually(() => dropped.length === 1, 'the version is dropped');
  assert.deepEqual(dropped, ['d1']);
});
