// Copies of apps' storage for previews and `cellar dev --remote-data`: the accounts take turns.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { outOfMemoryScore } from '../../runtime/resources/out-of-memory.ts';
import { eventually, processes } from '../support/processes.ts';
import { startSnapshots } from '../support/snapshots/host.ts';

const IDS = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(16));

test("an account's copies do not wait for all of another's, and a client that disconnects frees its turn", async (t) => {
  const { root, snapshots, addApp } = startSnapshots(t);
  for (const [at, id] of IDS.entries()) addApp(id, `app-${at}`, 1_000);
  const ended: string[] = [];
  const copy = async (at: number, owner: string, name: string, left = new AbortController().signal) => {
    const of = { id: IDS[at]!, slug: `app-${at}`, liveDeployId: null, user: null, isInBucket: false };
    await snapshots.copy(of, join(root, name), owner, left);
    ended.push(name);
  };
  const leaving = new AbortController();
  const greedy = [copy(0, 'greedy', 'one'), copy(1, 'greedy', 'two'), copy(2, 'greedy', 'three')];
  const left = copy(2, 'greedy', 'left', leaving.signal);
  const modest = copy(3, 'modest', 'other');
  await eventually(() => {
    const found = processes().find(
      ({ parent, command }) =>
        parent === process.pid && command.some((word) => word.endsWith('/snapshots/process.ts')),
    );
    return (
      found !== undefined &&
      Number(readFileSync(`/proc/${found.pid}/oom_score_adj`, 'utf8')) === outOfMemoryScore('build') &&
      /^Max data size +3221225472 /m.test(readFileSync(`/proc/${found.pid}/limits`, 'utf8'))
    );
  }, 'the process that copies has limits');
  leaving.abort(new Error('the client has left'));
  await assert.rejects(left, /the client has left/);
  await Promise.all([...greedy, modest]);
  assert.deepEqual(ended, ['one', 'two', 'other', 'three']);
  assert.equal(existsSync(join(root, 'left')), false);
});
