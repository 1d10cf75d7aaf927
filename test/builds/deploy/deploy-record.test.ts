// How much of a deploy's log is written to a real store, and how often.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { DeployFact, WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { DeployRecord } from '../../../runtime/builds/deploy/deploy-record.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const FACT: DeployFact = {
  id: 'd'.repeat(16),
  app_id: 'a'.repeat(16),
  sha: '0'.repeat(40),
  ref: 'refs/heads/main',
  message: 'A commit',
  author: 'Ada',
  trigger: 'push',
  status: 'building',
  can_roll_back: false,
  steps: [],
  error: null,
  created_at: new Date().toISOString(),
  started_at: null,
  finished_at: null,
};

test('log lines are published at once, and the whole log is written at most once a second', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  store.apps.want({ id: FACT.app_id, generation: 1 } as WantedApp);
  let saved = 0;
  const { saveLog } = store.deploys;
  store.deploys.saveLog = (id, text) => {
    saved++;
    saveLog(id, text);
  };
  const record = new DeployRecord({ store, onFacts: () => {} }, FACT, null, () => {});
  const lines = () =>
    store.outbox
      .next(1_000, 2 ** 20)
      .events.flatMap((event) => (event.type === 'lines' ? event.lines.lines : []));
  saved = 0;
  const began = performance.now();
  for (let n = 1; n <= 5; n++) {
    record.log.line(`line ${n}`);
    await eventually(() => lines().at(-1) === `line ${n}`, 'the line is told');
  }
  const seconds = (performance.now() - began) / 1000;
  // A timer starts at the event loop's cached time, which may be earlier than the start of this test.
  assert.ok(saved <= Math.floor(seconds) + 1, `written ${saved} times in ${seconds} s`);
  await eventually(
    () => store.deploys.log(FACT.app_id, FACT.id) === 'line 1\nline 2\nline 3\nline 4\nline 5\n',
    'the log is written',
  );
  record.log.line('the last one');
  record.change({ status: 'failed' });
  assert.match(store.deploys.log(FACT.app_id, FACT.id)!, /the last one\n$/);
});

test('a failed transaction loses no line for the control plane', async (t) => {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  store.apps.want({ id: FACT.app_id, generation: 1 } as WantedApp);
  const record = new DeployRecord({ store, onFacts: () => {} }, FACT, null, () => {});
  const { save } = store.deploys;
  store.deploys.save = () => {
    throw new Error('disk full');
  };
  record.log.line('a line');
  assert.throws(() => record.changeWith({ status: 'live' }, () => {}), /disk full/);
  record.change({ status: 'failed' });
  store.deploys.save = save;
  record.write();
  const lines = store.outbox
    .next(1_000, 2 ** 20)
    .events.flatMap((event) => (event.type === 'lines' ? event.lines.lines : []));
  assert.deepEqual(lines, ['a line']);
});
