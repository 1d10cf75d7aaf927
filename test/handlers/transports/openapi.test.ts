// The OpenAPI document, as served.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type * as z from 'zod';
import { App } from '../../../handlers/contract/apps/apps.ts';
import { Deploy } from '../../../handlers/contract/apps/deploys.ts';
import { Domain } from '../../../handlers/contract/apps/domains.ts';
import { EnvVariable } from '../../../handlers/contract/apps/env.ts';
import { operations, operationsByName } from '../../../handlers/contract/index.ts';
import { pathNames } from '../../../handlers/contract/operation.ts';
import { otherRoutes } from '../../../handlers/contract/other-routes.ts';
import { examples, inputSchema } from '../../../handlers/transports/schemas.ts';
import { TestControl, TOKEN } from '../../support/handlers/control.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

let control: TestControl;
// biome-ignore lint/suspicious/noExplicitAny: a document
let document: any;
let directory: string;
/** Path of the document. */
let written: string;
before(async () => {
  control = await TestControl.start();
  document = (await control.api('GET', '/openapi.json')).body;
  directory = mkdtempSync(join(tmpdir(), 'cellar-openapi-'));
  written = join(directory, 'openapi.json');
  writeFileSync(written, JSON.stringify(document));
});
after(async () => {
  rmSync(directory, { recursive: true });
  await control.stop();
});

test('it is OpenAPI 3.1 and has every operation and every other route once, by its name', () => {
  assert.equal(document.openapi, '3.1.0');
  assert.deepEqual(document.servers, [{ url: 'http://127.0.0.1:8080' }]);
  const ids: string[] = [];
  for (const path of Object.values<Record<string, { operationId?: string }>>(document.paths)) {
    for (const { operationId } of Object.values(path)) if (operationId) ids.push(operationId);
  }
  const names = [...operations, ...otherRoutes].map(({ name }) => name);
  assert.deepEqual(ids.sort(), names.sort());
});

test('it has the routes that are no operations, with their inputs', () => {
  assert.deepEqual(document.paths['/health'].get.security, []);
  assert.deepEqual(document.paths['/v1/git/{slug}/git-receive-pack'].post.security, [{ git: [] }]);
  for (const path of ['/ready', '/rpc', '/openapi.json', '/v1/edge/tls-ask'])
    assert.ok(document.paths[path], path);
});

test('it describes headers, raw answers and the readiness answer too', () => {
  const headers = (operation: { parameters: { in: string; name: string; $ref?: string }[] }) =>
    operation.parameters
      .filter((parameter) => parameter.in === 'header' || parameter.$ref)
      .map(({ name, $ref }) => name ?? $ref!.split('/').at(-1));
  const { paths } = document;
  assert.deepEqual(headers(paths['/v1/edge/wake'].get), ['X-Forwarded-Host']);
  assert.deepEqual(headers(paths['/rpc'].post), ['IdempotencyKey']);
  assert.deepEqual(headers(paths['/v1/apps/{id}'].delete), ['IdempotencyKey']);
  assert.deepEqual(headers(paths['/v1/apps/{id}/events/stream'].get), ['Last-Event-ID']);
  const keys = new RegExp(document.components.parameters.IdempotencyKey.schema.pattern);
  assert.deepEqual(
    ['k', 'a"b', '', 'two words', 'é', 'x'.repeat(201)].map((key) => keys.test(key)),
    [true, true, false, false, false, false],
  );
  const blob = paths['/v1/apps/{id}/blob/{path}'].get;
  assert.deepEqual(headers(blob), ['Range', 'If-None-Match']);
  assert.ok(blob.responses[206] && blob.responses[304] && blob.responses[416]);
  assert.ok(paths['/v1/apps/{id}'].delete.responses[422], 'a key may be used for another request');
  for (const [path, methods] of Object.entries<Record<string, { responses: object }>>(paths))
    for (const { responses } of Object.values(methods))
      assert.ok('429' in responses, `${path} is behind the limits of the edge`);
  const { schema } = paths['/ready'].get.responses[503].content['application/json'];
  assert.deepEqual(schema.required, ['status', 'failing']);
});

test('every parameter in braces is described, and every reference resolves', () => {
  for (const [path, methods] of Object.entries<
    Record<string, { parameters: { in: string; name: string }[] }>
  >(document.paths)) {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
    for (const { parameters } of Object.values(methods)) {
      assert.deepEqual(
        parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name),
        names,
        path,
      );
    }
  }
  for (const [, reference] of JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)) {
    let found = document;
    for (const name of reference!.split('/')) found = found?.[name];
    assert.ok(found, reference!);
  }
  // A schema with only `allOf` has no type, so generators would make it `any`.
  for (const [all] of JSON.stringify(document).matchAll(/"allOf":\[\{"pattern"/g)) assert.fail(all);
});

test('inputs are split into path, query and body, and answers have their statuses', () => {
  const { get, post } = document.paths['/v1/apps'];
  assert.deepEqual(
    get.parameters.map(({ name }: { name: string }) => name),
    ['owner', 'host', 'dispatch_namespace', 'limit', 'cursor'],
  );
  const { schema } = post.requestBody.content['application/json'];
  assert.deepEqual(
    [Object.keys(schema.properties), schema.required, schema.additionalProperties],
    [['slug', 'owner', 'storage'], ['slug'], false],
  );
  assert.ok(post.responses[201] && post.responses[403] && post.responses[409]);
  assert.deepEqual(Object.keys(document.paths['/v1/apps/{id}/env'].post.responses).slice(0, 2), [
    '200',
    '201',
  ]);
  const stream = document.paths['/v1/apps/{id}/events/stream'].get.responses[200].content;
  assert.ok(stream['text/event-stream']);
});

test('schemas have names, and each operation refers to them', () => {
  const { schemas } = document.components;
  for (const name of ['App', 'Deploy', 'LogLine', 'GroupedError', 'Domain', 'Problem'])
    assert.ok(schemas[name], name);
  const answer = document.paths['/v1/apps'].get.responses[200].content['application/json'].schema;
  assert.deepEqual(answer.properties.items.items, { $ref: '#/components/schemas/App' });
  const deploy =
    document.paths['/v1/apps/{id}/rollback'].post.responses[202].content['application/json'].schema;
  assert.deepEqual(deploy, { $ref: '#/components/schemas/Deploy' });
});

test('fields of inputs and of the schemas of apps and deploys say what they mean, operations have tags', () => {
  const silent: string[] = [];
  const visit = (value: unknown, at: string): void => {
    if (typeof value !== 'object' || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (key !== 'properties') {
        visit(inner, at);
        continue;
      }
      for (const [name, field] of Object.entries(inner as Record<string, { description?: string }>)) {
        if (field.description === undefined) silent.push(`${at} ${name}`);
        visit(field, at);
      }
    }
  };
  for (const { name, input } of operations) visit(inputSchema(name, input), name);
  for (const name of ['App', 'Deploy']) visit(document.components.schemas[name], name);
  // Fields without a description: of a home (an app's host), a dispatch namespace, a version and a step. Their names are clear.
  const parts = ['id', 'tag', 'message', 'created_at', 'name', 'status', 'duration_ms'];
  assert.deepEqual(silent, [
    'App id',
    'App name',
    'App namespace',
    'App script',
    ...parts.map((name) => `Deploy ${name}`),
  ]);
  const known = new Set(document.tags.map(({ name }: { name: string }) => name));
  for (const { name, description } of document.tags) assert.ok(description, `the tag ${name} says nothing`);
  for (const path of Object.values<Record<string, { tags: string[] }>>(document.paths))
    for (const { tags } of Object.values(path)) assert.ok(tags.every((tag) => known.has(tag)));
});

test('examples match their schemas', () => {
  const schemas: Record<string, z.ZodType> = { App, Deploy, EnvVariable, Domain };
  for (const [name, example] of Object.entries(examples)) {
    const operation = operationsByName.get(name);
    const inPath = operation?.path ? pathNames(operation.path) : [];
    const path = Object.fromEntries(inPath.map((field) => [field, 'x']));
    (operation?.input ?? schemas[name]!).parse({ ...path, ...example });
  }
});

test('the linter of OpenAPI documents reports nothing', async () => {
  const printed = await runTool('redocly', 'lint', '--format=json', written);
  assert.deepEqual(JSON.parse(printed).problems, []);
});

/** A program that uses the generated client: every kind of operation, with its types. */
const DRIVE = `
import assert from 'node:assert/strict';
import {
  appsCreate, appsDelete, appsGet, appsList, defaults, envList, envSet, eventsLog, limitsGet, limitsSet,
} from './client.ts';

const [, , url, token] = process.argv;
defaults.baseUrl = url!;
defaults.headers = { authorization: \`Bearer \${token}\` };
const created = await appsCreate({ slug: 'generated' }, { idempotencyKey: 'one' });
assert.equal(created.status, 201);
if (created.status !== 201) throw new Error('unreachable');
const { id } = created.data;
const again = await appsCreate({ slug: 'generated' }, { idempotencyKey: 'one' });
assert.deepEqual(again, created);
const set = await envSet(id, { name: 'A', value: 'x' }, {});
assert.equal(set.status, 201);
const variables = await envList(id, { limit: 1 });
assert.ok(variables.status === 200 && variables.data.items[0]!.name === 'A');
const logged = await eventsLog(id, { channel: 'c', event: 'e', tags: { n: 1 } }, {});
assert.ok(logged.status === 201 && logged.data.tags.n === 1);
const list = await appsList({ limit: 5 });
assert.ok(list.status === 200 && list.data.items.some((app) => app.slug === 'generated'));
const limited = await limitsSet({ jsonrpc: '2.0', id: 1, method: 'limits.set', params: { id, appRpm: 5 } }, {});
assert.ok(limited.status === 200 && 'result' in limited.data && limited.data.result.appRpm === 5);
const refused = await limitsGet({ jsonrpc: '2.0', id: 2, method: 'limits.get', params: { id: 'nobody' } });
assert.ok(refused.status === 200 && 'error' in refused.data && refused.data.error.data.code === 'app_not_found');
assert.equal((await appsDelete(id, {})).status, 204);
const gone = await appsGet(id);
assert.ok(gone.status === 404 && gone.data.code === 'app_not_found');
`;

/** A program that uses the client of another generator, which throws refusals. */
const DRIVE_SERVICES = `
import assert from 'node:assert/strict';
import {
  AccountsService, ApiError, AppsService, EnvService, EventsService, LimitsService, OpenAPI, OtherService,
} from './client/index.ts';

const [, , url, token] = process.argv;
OpenAPI.BASE = url!;
OpenAPI.TOKEN = token!;
const created = await AppsService.appsCreate({ slug: 'services' }, 'two');
assert.deepEqual(await AppsService.appsCreate({ slug: 'services' }, 'two'), created);
const { id, status } = created;
assert.equal(status, 'created');
assert.equal((await EnvService.envSet(id, { name: 'A', value: 'x' })).name, 'A');
const { items, next_cursor } = await EnvService.envList(id, 1);
assert.deepEqual([items[0]!.value, next_cursor], ['x', null]);
const logged = await EventsService.eventsLog(id, { channel: 'c', event: 'e', tags: { n: 1 } });
assert.equal(logged.tags.n, 1);
const limited = await LimitsService.limitsSet({
  jsonrpc: '2.0', id: 1, method: 'limits.set', params: { id, appRpm: 5 },
});
assert.ok('result' in limited && limited.result.appRpm === 5);
const accounts = await AccountsService.accountsList({ jsonrpc: '2.0', id: 2, method: 'accounts.list', params: {} });
assert.ok('result' in accounts && accounts.result.items[0]!.role === 'owner');
const overview = await AppsService.appsOverview({ jsonrpc: '2.0', id: 3, method: 'apps.overview' });
assert.ok('result' in overview && overview.result.items.some((app) => app.slug === 'services'));
const openapi: unknown = await OtherService.openapi();
assert.ok(openapi);
await AppsService.appsDelete(id);
await assert.rejects(AppsService.appsGet(id), (error) => error instanceof ApiError && error.status === 404);
`;

test('a client generated from it compiles and drives the API', async () => {
  const out = clientDirectory(DRIVE);
  await runTool('oazapfts', written, join(out, 'client.ts'));
  await runTool('tsc', '-p', out);
  await runTool('node', join(out, 'drive.ts'), control.url, TOKEN);
});

test('a client of another generator does so too, and has a type for all that has one', async () => {
  const out = clientDirectory(DRIVE_SERVICES);
  // The generator is run by its path, because another package also has a program `openapi`.
  const generator = join(ROOT, 'node_modules/openapi-typescript-codegen/bin/index.js');
  await runTool('node', generator, '--input', written, '--output', join(out, 'client'), '--useUnionTypes');
  await runTool('tsc', '-p', out);
  // The generated modules import each other without an extension.
  const bundled = join(out, 'drive.js');
  await runTool(
    'esbuild',
    join(out, 'drive.ts'),
    '--bundle',
    '--platform=node',
    '--format=esm',
    `--outfile=${bundled}`,
  );
  await runTool('node', bundled, control.url, TOKEN);
  assert.deepEqual(untyped(join(out, 'client')), UNTYPED);
});

/** Makes a directory in which a generated client is compiled. @param drive the program that calls it */
function clientDirectory(drive: string): string {
  const out = mkdtempSync(join(directory, 'client-'));
  symlinkSync(join(ROOT, 'node_modules'), join(out, 'node_modules'));
  writeFileSync(join(out, 'drive.ts'), drive);
  writeFileSync(join(out, 'package.json'), '{"type": "module"}');
  const config = {
    extends: join(ROOT, 'tsconfig.json'),
    // The generated files do not pass stricter options.
    compilerOptions: {
      lib: ['es2024', 'dom'],
      module: 'esnext',
      moduleResolution: 'bundler',
      noUnusedLocals: false,
      erasableSyntaxOnly: false,
      exactOptionalPropertyTypes: false,
    },
    include: ['*.ts'],
    exclude: [],
  };
  writeFileSync(join(out, 'tsconfig.json'), JSON.stringify(config));
  return out;
}

/** Fields with any JSON: rows, stored values, variables, data of Workflows, JSON-RPC and MCP messages, the document itself. */
const UNTYPED = [
  'OtherService.ts openapi',
  'OtherService.ts requestBody',
  'PreviewsService.ts vars',
  'StorageService.ts arguments',
  'StorageService.ts items',
  'StorageService.ts metadata',
  'VarsService.ts value',
  'WorkflowsService.ts output',
  'WorkflowsService.ts params',
  'WorkflowsService.ts payload',
];

/** Returns the names of everything that has the type `any` in a client. */
function untyped(client: string): string[] {
  const field = /^ +(?:public static )?(\w+)(?:\??:|\(\):).*\bany\b/gm;
  const names = ['services', 'models'].flatMap((folder) =>
    readdirSync(join(client, folder)).flatMap((file) =>
      [...readFileSync(join(client, folder, file), 'utf8').matchAll(field)].map(
        ([, name]) => `${file} ${name}`,
      ),
    ),
  );
  return [...new Set(names)].sort();
}

/** Runs a program of an installed package. Asynchronously, since the test's host answers from this process. */
async function runTool(name: string, ...words: string[]): Promise<string> {
  const program = join(ROOT, 'node_modules/.bin', name);
  const env = { PATH: `${ROOT}node_modules/.bin:/usr/bin:/bin`, HOME: directory };
  const quiet = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const options = {
    cwd: directory,
    timeout: 180_000,
    maxBuffer: 16 * 1024 * 1024,
    env: { ...env, ...quiet },
  };
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  execFile(program, words, options, (error, stdout, stderr) => {
    if (error) reject(new Error(`${name}: ${error.message}\n${stdout}\n${stderr}`.slice(0, 4000)));
    else resolve(stdout);
  });
  return promise;
}
