// The kernel's memory limit of an app, on machines where Cellar can create control groups.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { CellGroups, openCellGroups, useCellGroups } from '../../../runtime/resources/cell-groups.ts';
import { harness } from '../../support/fleets/harness.ts';
import { eventually } from '../../support/processes.ts';

const NAME = `cellar-test-${process.pid}`;
const groups = openCellGroups(NAME, 128);
const NEEDS_GROUPS = groups instanceof CellGroups ? {} : { skip: `no control groups here: ${groups}` };

/** Keeps what it allocates. */
const HUNGRY = `
const kept = [];
export default { async fetch(request) {
  const mb = Number(new URL(request.url).searchParams.get('mb'));
  for (let got = 0; got < mb; got += 8) {
    kept.push(new Uint8Array(8 << 20).fill(1));
    await scheduler.wait(1);
  }
  return new Response('ok');
} }`;

after(async () => {
  if (groups instanceof CellGroups) await eventually(() => groups.close(), 'no group is left');
});

test(
  'the kernel kills a process that exceeds its memory between two checks, and its owner is notified',
  NEEDS_GROUPS,
  async (t) => {
    useCellGroups(groups as CellGroups);
    const app = harness(t, { memoryMb: 128 });
    await app.fleet.swap(await app.release(1, { code: HUNGRY, migrations: {} }), {
      commit: async () => {},
      log: () => {},
    });
    // The process joins its control group while it starts.
    const group = () => readFileSync(`/proc/${app.fleet.pid}/cgroup`, 'utf8');
    await app.until(() => group().includes(`${NAME}-cell-${app.fleet.pid}`));
    assert.equal(await app.ask('/?mb=4000').catch(() => 'cut'), 'cut');
    await app.until(() => app.fleet.lastError !== null);
    assert.equal(app.fleet.lastError, 'the app needed more memory than RUNNER_CELL_MAX_MB (128) allows');
    assert.equal((await app.ask('/')).status, 200);
  },
);
