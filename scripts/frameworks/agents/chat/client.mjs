// A chat: the answer arrives in parts, a second client sees it, and a sleep loses no message.
import assert from 'node:assert/strict';
import { AgentClient } from 'agents/client';
import { eventually, get, host, sleep } from './support.mjs';

const connect = () => {
  const [parts, lists] = [[], []];
  const client = new AgentClient({ agent: 'chat', name: 'ann', host, protocol: 'ws' });
  client.addEventListener('message', ({ data }) => {
    const message = JSON.parse(data);
    if (message.type === 'cf_agent_use_chat_response') parts.push(message);
    if (message.type === 'cf_agent_chat_messages') lists.push(message.messages);
  });
  return { client, parts, lists };
};
const stored = async () => JSON.parse(await get('/agents/chat/ann/get-messages'));
const textOf = ({ parts }) =>
  parts
    .filter(({ type }) => type === 'text')
    .map(({ text }) => text)
    .join('');
const [ann, other] = [connect(), connect()];
const say = async (id, text, messages) => {
  const asked = [...messages, { id, role: 'user', parts: [{ type: 'text', text }] }];
  const init = { method: 'POST', body: JSON.stringify({ messages: asked }) };
  ann.client.send(JSON.stringify({ type: 'cf_agent_use_chat_request', id: `request-${id}`, init }));
  await eventually('the answer ends', () => {
    const own = ann.parts.filter((part) => part.id === `request-${id}`);
    const failed = own.find(({ error }) => error);
    if (failed) throw new Error(failed.body);
    return own.some(({ done }) => done);
  });
};
await say('a', 'Hello', []);
const bodies = ann.parts.filter(({ body }) => body?.trim()).map(({ body }) => JSON.parse(body));
const deltas = bodies.filter(({ type }) => type === 'text-delta').map(({ delta }) => delta);
assert.equal(deltas.join(''), 'You said Hello');
assert.ok(deltas.length >= 2, 'in parts');
await eventually('the second client sees it', () => other.lists.some((list) => list.length > 0));
const first = await eventually('it is stored', async () => {
  const messages = await stored();
  return messages.length === 2 && messages;
});
assert.deepEqual(first.map(textOf), ['Hello', 'You said Hello']);
await sleep();
await say('b', 'Again', await stored());
assert.deepEqual((await stored()).map(textOf), ['Hello', 'You said Hello', 'Again', 'You said Again']);
process.exit();
