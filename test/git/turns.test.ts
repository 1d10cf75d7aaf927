// Pushes and fetches queue for each account, and do not delay other accounts.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { GitTurns } from '../../runtime/git/turns.ts';

/** The part of a response that a queue uses. */
class Response extends EventEmitter {
  destroyed = false;
  status = 0;
  text = '';
  writeHead(status: number): void {
    this.status = status;
  }
  end(text: string): void {
    this.text = text;
  }
}

function caller(turns: GitTurns, owner: string) {
  const response = new Response();
  const ended = Promise.withResolvers<void>();
  const state = { began: false, taken: () => {}, end: ended.resolve, response };
  const served = turns.serve(owner, response as unknown as ServerResponse, (taken) => {
    Object.assign(state, { began: true, taken });
    return ended.promise;
  });
  return Object.assign(state, { served });
}

test('three of one account run at once, others wait, and another account starts at once', async () => {
  const turns = new GitTurns();
  const calls = Array.from({ length: 5 }, () => caller(turns, 'eve'));
  const other = caller(turns, 'ada');
  await turn();
  assert.deepEqual(
    calls.map(({ began }) => began),
    [true, true, true, false, false],
  );
  assert.equal(other.began, true);
  // A push that git has accepted frees its place while its deploy continues.
  calls[0]!.taken();
  await turn();
  assert.equal(calls[3]!.began, true);
  // A client that disconnects loses its turn.
  calls[4]!.response.emit('close');
  await calls[4]!.served;
  calls[1]!.end();
  await turn();
  assert.equal(calls[4]!.began, false);
});

test('when too many wait, one more is refused with the limit', async () => {
  const turns = new GitTurns();
  for (let n = 0; n < 53; n++) caller(turns, 'eve');
  const refused = caller(turns, 'eve');
  await refused.served;
  assert.equal(refused.response.status, 503);
  assert.match(
    refused.response.text,
    /at most 50 pushes and fetches of one account may wait at once; try again/,
  );
});
