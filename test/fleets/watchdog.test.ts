import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Cell } from '../../runtime/fleets/cell.ts';
import { Watchdog } from '../../runtime/fleets/watchdog.ts';
import { call, makeRelease, startRelease } from '../support/fleets/release.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const CODE = `export default { fetch(request) {
  if (new URL(request.url).pathname === '/loop') for (;;);
  return new Response('ok');
} }`;

test('a process in an endless loop is found; one that answers is left alone', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/release`, CODE);
  const cell = await startRelease(root, directory);
  t.after(() => cell.kill());
  const stuck: Cell[] = [];
  const watchdog = new Watchdog((found) => stuck.push(found), { looks: 1, answerMs: 200, missed: 3 });
  const look = setInterval(() => watchdog.look(cell), 20);
  t.after(() => clearInterval(look));

  for (let asked = 0; asked < 10; asked++) assert.equal(await cell.answers('health', 2_000), true);
  assert.deepEqual(stuck, []);
  const looped = call(cell.socketPath('http'), '/loop').catch(() => null);
  const deadline = AbortSignal.timeout(10_000);
  while (stuck.length === 0) {
    deadline.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.deepEqual(stuck, [cell]);
  cell.kill();
  await looped;
  assert.equal((await cell.exited).signal, 'SIGKILL');
});
