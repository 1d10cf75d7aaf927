// Cache prefills that end early.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Harness, harness } from '../../support/fleets/harness.ts';
import { eventually, processes } from '../../support/processes.ts';

/** Number of cache entries: enough that the prefill still runs when the test finds its process. */
const FILES = 3_000;

/** Starts a prefill and returns its process. */
async function filling(t: TestContext): Promise<{ app: Harness; filled: Promise<void>; pid: number }> {
  const app = harness(t);
  const release = await app.release(1, { migrations: {} });
  const cache = join(release.directory, 'cache');
  mkdirSync(cache);
  for (let file = 0; file < FILES; file++) writeFileSync(join(cache, String(file)), 'x'.repeat(1_000));
  const filled = app.fleet.prefill(
    release,
    {
      kind: 'namespace',
      storageId: 'namespace1',
      binding: 'CACHE',
      directory: 'cache',
      prefix: 'p',
      files: FILES,
    },
    new AbortController().signal,
  );
  filled.catch(() => {});
  const find = () =>
    processes((command) =>
      command.some((word) => word.includes(`${app.root}/run`) && word.includes('prefill')),
    )[0];
  const written = join(app.root, 'data/do/KVNamespace');
  await eventually(() => find() !== undefined && existsSync(written), 'the filling runs');
  return { app, filled, pid: find()!.pid };
}

test('deleting an app ends its cache prefill at once, with that reason', async (t) => {
  const { app, filled, pid } = await filling(t);
  process.kill(pid, 'SIGSTOP');
  const begun = performance.now();
  await app.fleet.close('the app was deleted');
  await assert.rejects(filled, /^Error: the app was deleted$/);
  assert.ok(performance.now() - begun < 60_000, 'the filling itself may take two minutes');
});

test('a prefill whose process is killed reports the reason', async (t) => {
  const { filled, pid } = await filling(t);
  process.kill(pid, 'SIGKILL');
  await assert.rejects(filled, /workerd was ended by SIGKILL/);
});
