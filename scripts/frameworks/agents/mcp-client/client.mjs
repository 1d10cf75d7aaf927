// An agent that is a client of an MCP server in the same app, also after a sleep.
import assert from 'node:assert/strict';
import { AgentClient } from 'agents/client';
import { host, sleep } from './support.mjs';

const player = new AgentClient({ agent: 'player', name: 'ann', host, protocol: 'ws' });
assert.deepEqual(await player.call('join'), ['roll']);
assert.equal((await player.call('play', [6])).content[0].text, '1 of 6');
await sleep();
assert.equal((await player.call('play', [20])).content[0].text, '1 of 20');
process.exit();
