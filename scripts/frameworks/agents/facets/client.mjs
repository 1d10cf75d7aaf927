// Agents inside an agent. Each has a separate database, and is reachable below the parent's address.
import assert from 'node:assert/strict';
import { AgentClient } from 'agents/client';
import { eventually, host, sleep } from './support.mjs';

const notebook = new AgentClient({ agent: 'notebook', name: 'ann', host, protocol: 'ws' });
assert.equal(await notebook.call('write', ['shopping', 'milk']), 1);
assert.equal(await notebook.call('write', ['shopping', 'bread']), 2);
assert.equal(await notebook.call('write', ['work', 'mail']), 1);
const seen = [];
const note = new AgentClient({
  agent: 'notebook',
  name: 'ann',
  path: 'sub/note/shopping',
  host,
  protocol: 'ws',
  onStateUpdate: ({ texts }) => seen.push(texts.join()),
});
await eventually('a client gets the state of an inner agent', () => seen.includes('milk,bread'));
assert.equal(await note.call('write', ['eggs']), 3);
await sleep();
assert.equal(await notebook.call('write', ['shopping', 'tea']), 4);
await eventually('the client of the inner agent connects again', () => seen.includes('milk,bread,eggs,tea'));
assert.deepEqual((await notebook.call('notes')).sort(), ['shopping', 'work']);
await notebook.call('remove', ['work']);
assert.equal(await notebook.call('write', ['work', 'anew']), 1);
process.exit();
