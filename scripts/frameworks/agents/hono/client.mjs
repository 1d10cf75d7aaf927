// Hono's middleware passes requests to agents, but only if they have the right token.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { AgentClient } from 'agents/client';
import { app, get, host, opened } from './support.mjs';

assert.equal(await get('/'), 'Hono');
assert.equal(await get('/agents/echo/ann?token=right'), 'I am ann');
assert.equal((await fetch(`${app}/agents/echo/ann?token=wrong`)).status, 401);
const refused = new WebSocket(`ws://${host}/agents/echo/ann?token=wrong`);
await once(refused, 'error');
const agent = new AgentClient({
  agent: 'echo',
  name: 'ann',
  host,
  protocol: 'ws',
  query: { token: 'right' },
});
await opened(agent);
const heard = new Promise((resolve) => {
  agent.addEventListener('message', ({ data }) => data.startsWith('ann heard') && resolve(data));
});
agent.send('this');
assert.equal(await heard, 'ann heard this');
process.exit();
