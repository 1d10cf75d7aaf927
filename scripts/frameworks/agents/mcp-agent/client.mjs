// MCP over streamable HTTP and over SSE: tools, a resource, progress, and a question to the user. A session survives a
// sleep of the app.
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { app, sleep } from './support.mjs';

const connect = async (transport) => {
  const client = new Client({ name: 'client', version: '1.0.0' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { n: 7 } }));
  await client.connect(transport);
  const call = async (name, args = {}, options) =>
    (await client.callTool({ name, arguments: args }, undefined, options)).content[0].text;
  return { client, call };
};
const use = async (transport) => {
  const { client, call } = await connect(transport);
  assert.deepEqual((await client.listTools()).tools.map(({ name }) => name).sort(), ['add', 'ask', 'slow']);
  assert.equal(await call('add', { n: 2 }), '2');
  assert.equal(await call('add', { n: 3 }), '5');
  assert.equal((await client.readResource({ uri: 'calculator://sum' })).contents[0].text, '5');
  const reported = [];
  const onprogress = ({ progress }) => reported.push(progress);
  assert.equal(await call('slow', {}, { onprogress }), 'done');
  assert.deepEqual(reported, [1, 2]);
  assert.equal(await call('ask'), 'accept 7');
  return { client, call };
};
const http = await use(new StreamableHTTPClientTransport(new URL(`${app}/mcp`)));
await use(new SSEClientTransport(new URL(`${app}/sse`)));
await sleep();
assert.equal(await http.call('add', { n: 1 }), '6');
process.exit();
