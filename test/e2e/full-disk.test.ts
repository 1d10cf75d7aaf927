// A full disk: the host keeps running, boots, serves, and recovers by itself when there is space.
// Runs as root too.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/processes.ts';
import { DISK_KINDS, SmallDisk } from '../support/small-disk.ts';

for (const kind of DISK_KINDS) {
  test(`on a full disk (${kind}) the host keeps running, stops, boots and serves`, async (t) => {
    const cellar = new Cellar({
      RUNNER_BUILD_MAX_MB: '16',
      RUNNER_DISK_FLOOR_MB: '40',
      RUNNER_FLEET_IDLE_EVICT_S: '1',
    });
    await using _ = cellar;
    using disk = SmallDisk.mount(cellar.data, 400, kind);
    if (disk === null) return t.skip(SmallDisk.why);
    await cellar.start();
    const id = await cellar.deploy('hello', 'hello');
    const answers = async () => (await cellar.get('hello')).status === 200;
    disk.fill();

    // The app hibernates, wakes and serves, so the host has writes that fail.
    for (let round = 0; round < 2; round++) {
      await eventually(() => cells(id).length === 0, 'the app hibernates');
      assert.ok(await answers());
      assert.equal((await cellar.call('GET', `/v1/apps/${id}`)).body.status, 'running');
      disk.fill();
    }

    for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
      await cellar.stop(signal);
      disk.fill();
      const from = cellar.output.length;
      const started = cellar.start();
      started.catch(() => {});
      await cellar.waitFor(/ info {2}starting /, from);
      await eventually(() => answers().catch(() => false), `the app answers after ${signal}`);
      disk.clear();
      await started;
      assert.ok(await answers());
      assert.equal((await cellar.call('PATCH', `/v1/apps/${id}`, { desired_state: 'running' })).status, 200);
      disk.fill();
    }
    assert.doesNotMatch(cellar.output, /the control plane does not start|nothing took care of that/);
    disk.clear();
    await eventually(async () => (await cellar.call('GET', '/ready')).status === 200, 'there is room again');
    await cellar.deployAgain('hello', 'site');
  });
}

test('a start on a full disk says that it waits for space and what helps, and continues when there is space', async (t) => {
  const cellar = new Cellar({ RUNNER_BUILD_MAX_MB: '16', RUNNER_DISK_FLOOR_MB: '40' });
  await using _ = cellar;
  using disk = SmallDisk.mount(cellar.data, 200);
  if (disk === null) return t.skip(SmallDisk.why);
  await cellar.start();
  await cellar.stop();
  // As if an earlier shortage had used up the disk reserve.
  rmSync(join(cellar.data, 'ballast'), { force: true });
  disk.fill();
  const from = cellar.output.length;
  const started = cellar.start();
  started.catch(() => {});
  const [line] = await cellar.waitFor(/ warn {2}.*waits for free disk space.*\n/, from);
  assert.match(
    line,
    /the control plane waits for free disk space.*apps are still served.*free_mb=0 needs_mb=8 /,
  );
  assert.ok(line.includes(`data=${cellar.data}`), line);
  disk.clear();
  await started;
});
