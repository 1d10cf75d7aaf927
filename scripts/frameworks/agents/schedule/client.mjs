// Schedules with a delay, an interval and a cron; the queue; rows in SQL; and a schedule that is due while the app sleeps.
import assert from 'node:assert/strict';
import { AgentClient } from 'agents/client';
import { eventually, host, sleep } from './support.mjs';

const agent = new AgentClient({ agent: 'diary', name: 'one', host, protocol: 'ws' });
const wrote = (line, times = 1) =>
  eventually(
    `${times} times "${line}"`,
    async () => (await agent.call('lines')).filter((each) => each === line).length >= times,
  );
await agent.call('soon', ['queued']);
await wrote('queued');
await agent.call('later', [1, 'later']);
await wrote('later');
const id = await agent.call('every', [1, 'again']);
await wrote('again', 2);
assert.equal(await agent.call('cancel', [id]), true);
assert.equal(await agent.call('daily'), 'cron');
const cancelled = await agent.call('later', [2, 'cancelled']);
assert.equal(await agent.call('cancel', [cancelled]), true);
await agent.call('later', [3, 'asleep']);
agent.close();
await sleep();
// This call wakes the app, unless the schedule has woken it before.
const next = new AgentClient({ agent: 'diary', name: 'one', host, protocol: 'ws' });
const lines = await eventually('the schedule ran', async () => {
  const all = await next.call('lines');
  return all.includes('asleep') && all;
});
assert.ok(!lines.includes('cancelled'), lines.join());
process.exit();
