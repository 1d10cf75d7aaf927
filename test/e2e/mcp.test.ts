// The MCP server with the protocol's official client: its tools, and an app that an agent makes, fixes and rolls back.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { request } from 'undici';
import { AGENT_ANSWER_CHARACTERS } from '../../handlers/contract/sizes.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { eventually } from '../support/processes.ts';

/** Largest list of tools, in tokens. One token is at least three characters of JSON. */
const TOOL_TOKENS = 12_000;
const CHARACTERS_OF_A_TOKEN = 3;

const cellar = new Cellar({ RUNNER_CORS_ORIGINS: 'https://agents.example' });
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

type Mode = 'legacy' | 'auto';

/** Connects an agent. @param mode `legacy`: a protocol version of 2025, `auto`: the newest */
async function agent(mode: Mode, token = cellar.key, query = ''): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
  const url = new URL(`${cellar.api}/mcp${query}`);
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }));
  return client;
}

/** Calls a tool and returns the texts of its answer. */
async function texts(
  client: Client,
  name: string,
  given: object = {},
): Promise<{ texts: string[]; failed: boolean }> {
  const { content, isError } = await client.callTool({ name, arguments: given as Record<string, unknown> });
  const parts = content as { type: string; text: string }[];
  return { texts: parts.map(({ text }) => text), failed: isError === true };
}

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function call(client: Client, name: string, given: object = {}): Promise<any> {
  const { texts: parts, failed } = await texts(client, name, given);
  assert.ok(!failed, `${name}: ${parts.join('\n')}`);
  return JSON.parse(parts[0]!);
}

for (const mode of ['legacy', 'auto'] as const) {
  test(`an agent with the ${mode} protocol makes an app, sees it fail, fixes it and rolls it back`, async () => {
    const client = await agent(mode);
    const slug = `made-${mode}`;
    const app = await call(client, 'apps_create', { slug });
    const commit = async (content: string, message: string) => {
      const files = [{ path: 'index.js', content }];
      const { deploy_id } = await call(client, 'source_commit', {
        id: slug,
        message,
        author_email: 'agent@example.com',
        files,
      });
      let status = '';
      await eventually(async () => {
        ({ status } = await call(client, 'deploys_get', { id: slug, deploy_id }));
        return status === 'live' || status === 'failed';
      }, `the deploy of ${message} to end`);
      return { deploy_id, status };
    };
    const first = await commit("export default { fetch: () => new Response('one') };", 'first');
    assert.equal(first.status, 'live');
    assert.equal((await cellar.get(slug)).text, 'one');

    const broken = await commit('export default {\n  fetch: () => new Response("x" };\n', 'broken');
    assert.equal(broken.status, 'failed');
    assert.match(
      (await call(client, 'deploys_log', { id: slug, deploy_id: broken.deploy_id })).log,
      /index\.js:2/,
    );
    assert.match(
      (await call(client, 'source_blob', { id: slug, path: 'index.js' })).content,
      /new Response\("x" \}/,
    );

    const throwing = "export default { fetch() { throw new TypeError('it broke'); } };";
    assert.equal((await commit(throwing, 'throws')).status, 'live');
    await eventually(async () => (await cellar.get(slug)).status === 500, 'the app to fail');
    await eventually(
      async () => (await call(client, 'errors_list', { id: slug })).items.length > 0,
      'the error',
    );
    const [{ fingerprint }] = (await call(client, 'errors_list', { id: slug })).items;
    const error = await call(client, 'errors_get', { id: slug, fingerprint });
    assert.deepEqual([error.kind, error.place], ['TypeError', 'index.js:1:34']);
    const { contents } = await client.readResource({ uri: `cellar://apps/${slug}/errors` });
    assert.match((contents[0] as { text: string }).text, /it broke/);

    assert.equal(
      (await commit("export default { fetch: () => new Response('two') };", 'mends')).status,
      'live',
    );
    assert.equal((await cellar.get(slug)).text, 'two');
    await call(client, 'deploys_rollback', { id: app.id, deploy_id: first.deploy_id });
    await eventually(async () => (await cellar.get(slug)).text === 'one', 'the first release to serve');
    await client.close();
  });
}

test('the tools are as recorded, each says whether it only reads or destroys, and their list is short', async () => {
  const client = await agent('auto');
  const { tools } = await client.listTools();
  const tokens = Math.ceil(JSON.stringify(tools).length / CHARACTERS_OF_A_TOKEN);
  assert.ok(tokens <= TOOL_TOKENS, `${tokens} tokens at most`);

  const kind = (annotations: (typeof tools)[number]['annotations']) =>
    annotations?.readOnlyHint ? 'reads' : annotations?.destructiveHint ? 'destroys' : 'changes';
  const kinds = Map.groupBy(tools, ({ annotations }) => kind(annotations));
  const named = (of: ReturnType<typeof kind>) =>
    kinds
      .get(of)!
      .map(({ name }) => name)
      .join(' ');
  assert.equal(
    named('reads'),
    'apps_list apps_get deploys_list deploys_get deploys_log source_tree source_blob source_diff logs_list errors_list errors_get ' +
      'metrics_get env_list vars_list secrets_list domains_list storage_overview storage_d1_get storage_kv_list storage_kv_get ' +
      'api_operations api_describe api_read',
  );
  assert.equal(
    named('changes'),
    'apps_create apps_update apps_sleep deploys_create deploys_cancel deploys_rollback source_commit errors_set_status ' +
      'env_set vars_set secrets_set domains_add',
  );
  assert.equal(named('destroys'), 'apps_delete storage_d1_write api_change');
  const commit = tools.find(({ name }) => name === 'source_commit')!;
  assert.deepEqual(commit.inputSchema.required, ['id', 'message', 'author_email', 'files']);
  const { resourceTemplates } = await client.listResourceTemplates();
  assert.ok(
    resourceTemplates.some(
      ({ uriTemplate }) => uriTemplate === 'cellar://apps/{app}/deploys/{deploy_id}/log',
    ),
  );
  const { resources } = await client.listResources();
  assert.ok(resources.some(({ uri }) => uri === 'cellar://apps/made-auto/logs'));
  await client.close();
});

test('operations without a tool are found, described and run; a refusal is a result, not a protocol error', async () => {
  const client = await agent('auto');
  assert.match((await texts(client, 'api_operations')).texts[0]!, /^collaborators\.set \(changes\): /m);
  const described = await call(client, 'api_describe', { name: 'limits.set' });
  assert.deepEqual(
    [described.needs, described.tool, Object.keys(described.input.properties)],
    ['admin', 'api_change', ['id', 'clientRpm', 'appRpm']],
  );
  const set = { name: 'limits.set', params: { id: 'made-auto', appRpm: 7 } };
  assert.equal((await call(client, 'api_change', set)).appRpm, 7);
  const refused = async (name: string, given: object) => {
    const { texts: parts, failed } = await texts(client, name, given);
    assert.ok(failed, name);
    return parts[0];
  };
  assert.match((await refused('api_read', set))!, /^invalid_input: limits\.set changes something/);
  assert.match((await refused('apps_get', { id: 'nobody' }))!, /^app_not_found: /);
  assert.match((await refused('apps_create', { slug: 'X' }))!, /^invalid_input: slug: must have 3 to 40/);
  assert.match(
    (await refused('api_read', { name: 'admin.stats' }))!,
    /^forbidden: This operation needs the runner token/,
  );
  assert.match(
    (await refused('api_read', { name: 'logs.stream' }))!,
    /^invalid_input: There is no operation/,
  );
  await client.close();
});

test('an answer that is too long becomes a shorter page or is cut, and says how to continue', async () => {
  const client = await agent('auto');
  await cellar.create('wordy');
  const files = [{ path: 'long.txt', content: 'x'.repeat(60_000) }];
  const commit = { id: 'wordy', message: 'long', author_email: 'a@example.com', files };
  await call(client, 'source_commit', commit);
  const file = await texts(client, 'source_blob', { id: 'wordy', path: 'long.txt' });
  assert.ok(file.texts[0]!.length <= AGENT_ANSWER_CHARACTERS + 1);
  assert.match(file.texts[1]!, /cut to .* characters/);
  const part = await call(client, 'source_blob', {
    id: 'wordy',
    path: 'long.txt',
    range: 'bytes=59990-59999',
  });
  assert.deepEqual([part.content, part.size], ['x'.repeat(10), 60_000]);
  for (let n = 0; n < 8; n++)
    await call(client, 'env_set', { id: 'wordy', name: `LONG_${n}`, value: 'v'.repeat(6_000) });
  const page = await texts(client, 'env_list', { id: 'wordy', limit: 8 });
  const { items, next_cursor } = JSON.parse(page.texts[0]!);
  assert.equal(items.length, 2);
  assert.match(page.texts[1]!, /ask again with cursor "/);
  const next = await call(client, 'env_list', { id: 'wordy', limit: 2, cursor: next_cursor });
  assert.equal(next.items[0].name, 'LONG_2');
  await client.close();
});

test('figures that are too long lose their oldest steps', async () => {
  const client = await agent('auto');
  await cellar.create('measured');
  const { texts: parts } = await texts(client, 'metrics_get', { id: 'measured' });
  const { items, step_s } = JSON.parse(parts[0]!);
  assert.ok(items.length > 0 && parts[0]!.length <= AGENT_ANSWER_CHARACTERS);
  assert.ok(Date.now() - Date.parse(items.at(-1).at) < 10 * step_s * 1_000, JSON.stringify(items.at(-1)));
  assert.match(parts[1]!, /from .* on/);
  await client.close();
});

test('a read-only agent has only tools that read; a wrong token, host or origin is refused', async () => {
  const reader = await agent('auto', cellar.token, '?read_only=true');
  const { tools } = await reader.listTools();
  assert.ok(tools.every(({ annotations }) => annotations?.readOnlyHint === true));
  await assert.rejects(
    reader.callTool({ name: 'apps_delete', arguments: { id: 'wordy' } }),
    /agents can only read/,
  );
  assert.ok(await call(reader, 'api_read', { name: 'admin.stats' }));
  await reader.close();

  const send = async (headers: Record<string, string>) => {
    const { statusCode, body } = await request(`${cellar.api}/mcp`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${cellar.key}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
    });
    const text = await body.text();
    return [statusCode, statusCode === 200 ? undefined : (JSON.parse(text) as { code: string }).code];
  };
  assert.deepEqual(await send({}), [200, undefined]);
  assert.deepEqual(await send({ origin: 'https://agents.example' }), [200, undefined]);
  assert.deepEqual(await send({ origin: 'https://evil.example' }), [403, 'forbidden']);
  assert.deepEqual(await send({ host: 'evil.example' }), [403, 'forbidden']);
  assert.deepEqual(await send({ authorization: 'Bearer wrong' }), [401, 'unauthorized']);
});
