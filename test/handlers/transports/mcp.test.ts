// MCP tools validate their arguments as the other transports do.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Operation } from '../../../handlers/contract/operation.ts';
import { callable, inputSchema, tools } from '../../../handlers/mcp/tools.ts';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start();
});
after(() => control.stop());

/** Returns the text of a tool's refusal; `null` when it accepts the arguments. */
async function refusal(name: string, given: object): Promise<string | null> {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: given } };
  const accept = { accept: 'application/json, text/event-stream' };
  const { text } = await control.api('POST', '/mcp', message, accept);
  const { result } = JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text);
  return result.isError ? result.content[0].text : null;
}

/** Returns JSON-RPC's refusal of the same arguments, in the format of a tool. */
async function rpcRefusal(method: string, params: object): Promise<string | null> {
  const { body } = await control.rpc({ jsonrpc: '2.0', id: 1, method, params });
  if (!body.error) return null;
  const { code, detail, errors = [] } = body.error.data;
  const fields = errors.map(
    ({ path, message }: { path: string; message: string }) => `\n${path}: ${message}`,
  );
  return `${code}: ${detail}${fields.join('')}`;
}

/** Returns invalid inputs: without a field, with an unknown one, and with all fields of a wrong type. */
function wrongInputs({ input }: Operation): object[] {
  const fields = Object.keys(input.shape);
  const wrong = [null, {}, [1], 1.5, 'a\0b'];
  return [
    {},
    ...wrong.map((value) => Object.fromEntries([...fields, 'no_such_field'].map((name) => [name, value]))),
  ];
}

test('every tool refuses wrong arguments as JSON-RPC does, by the field', async () => {
  const reached = ['limits.set', 'storage.r2.list'].map(
    (name) => callable.find((each) => each.name === name)!,
  );
  for (const operation of [...tools.flatMap((tool) => tool.operation ?? []), ...reached]) {
    const own = tools.find((tool) => tool.operation === operation);
    const said = (input: object) =>
      own
        ? refusal(own.tool.name, input)
        : refusal(operation.method === 'GET' ? 'api_read' : 'api_change', {
            name: operation.name,
            params: input,
          });
    const compared = wrongInputs(operation).map(async (input) => {
      const expected = await rpcRefusal(operation.name, input);
      if (expected === null) return false;
      assert.equal(await said(input), expected, `${operation.name} ${JSON.stringify(input)}`);
      return expected.startsWith('invalid_input');
    });
    assert.ok((await Promise.all(compared)).filter(Boolean).length >= wrongInputs(operation).length - 1);
  }
});

test('an input of values by name says what the values are', () => {
  const { properties } = inputSchema(callable.find(({ name }) => name === 'deploys.begin_upload')!);
  const { additionalProperties: file } = properties!.manifest as { additionalProperties: object };
  assert.deepEqual(Object.keys((file as { properties: object }).properties), ['hash', 'size']);
  assert.ok(!('additionalProperties' in file));
});

test('the tools that reach other operations validate their own arguments, too', async () => {
  const cases: [tool: string, given: object, fields: string[]][] = [
    ['api_operations', { more: 1 }, ['more: unknown field']],
    ['api_describe', {}, ['name: is required']],
    ['api_describe', { name: 5, more: 1 }, ['name: must be a string', 'more: unknown field']],
  ];
  for (const tool of ['api_read', 'api_change'])
    cases.push(
      [tool, {}, ['name: is required']],
      [tool, { name: ['apps.list'] }, ['name: must be a string']],
      [tool, { name: 'apps.list', more: 1 }, ['more: unknown field']],
      ...['x', [1], 1, null].map((params): (typeof cases)[number] => [
        tool,
        { name: 'apps.list', params },
        ['params: must be an object'],
      ]),
    );
  for (const [tool, given, fields] of cases)
    assert.equal(
      await refusal(tool, given),
      [`invalid_input: ${fields[0]}.`, ...fields].join('\n'),
      `${tool} ${JSON.stringify(given)}`,
    );
});
