// Two clients use a stateless MCP server: one of the newest protocol version, and one of a version of 2025.
import assert from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { app, sleep } from './support.mjs';

const use = async (client, transport, note) => {
  await client.connect(transport);
  const { tools } = await client.listTools();
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['addNote'],
  );
  const { content } = await client.callTool({ name: 'addNote', arguments: { note } });
  await client.close();
  return content[0].text;
};
const address = new URL(`${app}/mcp`);
const about = { name: 'client', version: '1.0.0' };
assert.equal(
  await use(new Client(about), new StreamableHTTPClientTransport(address), 'a'),
  'You have 1 notes',
);
await sleep();
assert.equal(await use(new OldClient(about), new OldTransport(address), 'b'), 'You have 2 notes');
const foreign = { method: 'POST', headers: { origin: 'https://elsewhere.example' }, body: '{}' };
assert.equal((await fetch(address, foreign)).status, 403);
