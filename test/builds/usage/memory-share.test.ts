import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryForBuilds, memoryShare } from '../../../runtime/builds/usage/memory-share.ts';
import { readConfig } from '../../../runtime/config.ts';

const GB = 2 ** 30;

test('builds may use half of the memory by default, and at least 2 GiB', () => {
  assert.equal(readConfig({}).RUNNER_BUILD_MEMORY_MB, null);
  assert.equal(readConfig({ RUNNER_BUILD_MEMORY_MB: '3000' }).RUNNER_BUILD_MEMORY_MB, 3000);
  assert.deepEqual(
    [1, 4, 16].map((size) => memoryForBuilds(size * GB)),
    [2048, 2048, 8192],
  );
});

test('concurrent builds share the memory, with at least 2 GiB each', () => {
  assert.deepEqual(
    [1, 2, 4, 8].map((commands) => memoryShare(8192, commands)),
    [8192, 4096, 2048, 2048],
  );
  assert.deepEqual(
    [1, 2].map((commands) => memoryShare(1000, commands)),
    [1000, 1000],
  );
});
