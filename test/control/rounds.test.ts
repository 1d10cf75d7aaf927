import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Control } from '../../runtime/control/control-plane.ts';
import { PeriodicJobs } from '../../runtime/control/rounds.ts';
import { eventually } from '../support/processes.ts';

test('a sweep that fails does not end the host, and the next one runs', async (t) => {
  let sweeps = 0;
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown) => unhandled.push(error);
  process.on('unhandledRejection', onUnhandled);
  t.after(() => process.off('unhandledRejection', onUnhandled));
  const jobs = new PeriodicJobs({
    control: {} as Control,
    trash: '/nowhere',
    forgetDeleted: () => {},
    removeFolders: async () => {},
    leads: () => true,
    removeAbandoned: null,
    storeReleases: async () => {},
    trimCode: async () => {},
    refreshIsolation: async () => {},
    tick: () => {},
    sweep: async () => {
      sweeps++;
      throw new Error('the database cannot be read');
    },
    sweepEveryMs: 5,
  });
  jobs.startTicking();
  await eventually(() => sweeps >= 2, 'it sweeps again');
  await jobs.stop();
  assert.deepEqual(unhandled, []);
});
