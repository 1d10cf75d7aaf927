// An agent starts a Workflow, which calls it back, reports progress, waits for an approval over a sleep, and completes.
import assert from 'node:assert/strict';
import { AgentClient } from 'agents/client';
import { eventually, host, sleep } from './support.mjs';

let events = [];
const order = new AgentClient({
  agent: 'order',
  name: 'one',
  host,
  protocol: 'ws',
  onStateUpdate: (state) => {
    events = state.events;
  },
});
const id = await order.call('place', ['book']);
await eventually('the Workflow waits', () => events.includes('progress waits'));
assert.ok(events.includes('packed book'), events.join());
await sleep();
await order.call('approve', [id]);
await eventually('the Workflow completes', () => events.includes('complete book, paid'));
await eventually(
  'the agent stores its status',
  async () => (await order.call('status', [id])) === 'complete',
);
process.exit();
