// Two clients share an agent's state. It survives a sleep, after which both connect again by themselves.
import assert from 'node:assert/strict';
import { AgentClient } from 'agents/client';
import { eventually, host, sleep } from './support.mjs';

const connect = (name) => {
  const seen = [];
  const client = new AgentClient({
    agent: 'counter',
    name,
    host,
    protocol: 'ws',
    onStateUpdate: (state) => seen.push(state.count),
  });
  return { client, seen };
};
const [first, second, other] = [connect('one'), connect('one'), connect('two')];
assert.equal(await first.client.call('add', [2]), 2);
assert.equal(await second.client.stub.add(3), 5);
await eventually('the first client sees the state of the second', () => first.seen.includes(5));
await eventually('the other agent has its own state', () => other.seen.includes(0));
assert.ok(!other.seen.includes(5));
second.client.setState({ count: 40 });
await eventually('a client sets the state', () => first.seen.includes(40));
await assert.rejects(first.client.call('fail'), /it failed/);
const chunks = [];
const end = await first.client.call('countTo', [3], { stream: { onChunk: (chunk) => chunks.push(chunk) } });
assert.deepEqual([chunks, end], [[1, 2, 3], 'done']);
await sleep();
assert.equal(await first.client.call('add', [1]), 41);
await eventually('the second client is connected again', () => second.seen.includes(41));
process.exit();
