// Selection of the next deploy from the queue.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Deploy } from '../../../runtime/builds/deploy/deploy.ts';
import { nextDeploy } from '../../../runtime/builds/queue/turns.ts';

interface Waiting {
  owner: string;
  builds: boolean;
}

const upload = (owner: string): Waiting => ({ owner, builds: false });
const build = (owner: string): Waiting => ({ owner, builds: true });

/** Returns the next deploy; null when none may start. */
function next(running: Waiting[], waiting: Waiting[]): Waiting | null {
  const deploys = (list: Waiting[]) => list as unknown as Deploy[];
  const ownerOf = (deploy: Deploy) => (deploy as unknown as Waiting).owner;
  return nextDeploy(deploys(running), deploys(waiting), ownerOf) as unknown as Waiting | null;
}

test('uploads and rollbacks of one account leave slots for other accounts', () => {
  assert.deepEqual(next([upload('a')], [upload('a')]), upload('a'));
  const both = [upload('a'), upload('a')];
  assert.equal(next(both, [upload('a'), upload('a')]), null);
  assert.deepEqual(next(both, [upload('a'), upload('b')]), upload('b'));
  assert.equal(next([...both, upload('b'), upload('b')], [upload('c')]), null);
});

test('an upload of the account with the fewest deploys comes first, however long others have waited', () => {
  assert.deepEqual(next([upload('a')], [upload('a'), upload('b')]), upload('b'));
});

test('builds do not wait for uploads that may not start', () => {
  assert.deepEqual(next([upload('a'), upload('a')], [upload('a'), build('a')]), build('a'));
});
