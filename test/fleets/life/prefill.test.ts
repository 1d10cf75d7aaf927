import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { prefill } from '../../../runtime/fleets/life/prefill.ts';
import { NO_SOCKET } from '../../../runtime/fleets/process/write-cell-files.ts';
import { call, makeRelease, startRelease, workerd } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const VALUE =
  'export default { fetch: async (r, env) => new Response(await env.CACHE.get("p/b é%/1.cache")) }';

test('cache files are put under their paths, and a file that cannot be put is named', async (t) => {
  const root = temporaryDirectory(t);
  const namespaces = [{ binding: 'CACHE', storageId: 'namespace1' }];
  const files = { 'cache/b é%/1.cache': 'one', 'cache/b é%/2.fetch': 'x'.repeat(1_000_000) };
  const { directory } = await makeRelease(join(root, 'r1'), VALUE, { namespaces }, files);
  const place = {
    workerd,
    user: null,
    memoryMb: 512,
    directory,
    dataDirectory: join(root, 'data'),
    runDirectory: join(root, 'run'),
    bucketSocket: NO_SOCKET,
    signal: new AbortController().signal,
  };
  const cache = { binding: 'CACHE', directory: 'cache', prefix: 'p', files: 2 };
  await prefill({ ...place, prefill: { kind: 'namespace', storageId: 'namespace1', ...cache } });
  const cell = await startRelease(root, directory);
  assert.equal((await call(cell.socketPath('http'), '/')).text, 'one');
  await cell.stop();
  await assert.rejects(
    prefill({ ...place, prefill: { kind: 'bucket', storageId: 'bucket1', ...cache } }),
    /^Error: filling the cache CACHE failed at p\/b é%\/[12]\.(cache|fetch): /,
  );
});
