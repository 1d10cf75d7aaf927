// The sweep with a window of one second: which apps it puts to sleep.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';

const cellar = new Cellar({ RUNNER_SLEEP_AFTER_H: '0.0003', RUNNER_SLEEP_SWEEP_S: '1' });
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const status = async (id: string) => (await cellar.app(id)).status;

test('the sweep puts unused apps to sleep, but none that is stopped, has an open WebSocket or has no release', async () => {
  const talking = await cellar.deploy('talking', 'chat');
  const socket = cellar.webSocket('talking', '/rooms/one/socket');
  await once(socket, 'open', { signal: AbortSignal.timeout(60_000) });
  const stopped = await cellar.deploy('stopped', 'hello');
  await cellar.call('PATCH', `/v1/apps/${stopped}`, { desired_state: 'stopped' });
  const empty = await cellar.create('empty');
  const unused = await cellar.deploy('unused', 'hello');
  await eventually(async () => (await status(unused)) === 'sleeping', 'the unused app sleeps');
  const later = await cellar.deploy('later', 'hello');
  await eventually(async () => (await status(later)) === 'sleeping', 'a later one sleeps too');
  assert.deepEqual(
    [await status(talking), await status(stopped), await status(empty)],
    ['running', 'stopped', 'created'],
  );
  const closed = once(socket, 'close', { signal: AbortSignal.timeout(60_000) });
  socket.close();
  await closed;
  await eventually(async () => (await status(talking)) === 'sleeping', 'it sleeps once nobody talks');
});
