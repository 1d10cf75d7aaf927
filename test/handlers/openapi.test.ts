// The OpenAPI document, as served.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { operations } from '../../handlers/contract/index.ts';
import { TestControl } from './control.ts';

let control: TestControl;
// biome-ignore lint/suspicious/noExplicitAny: a document
let document: any;
before(async () => {
  control = await TestControl.start();
  document = (await control.api('GET', '/openapi.json')).body;
});
after(() => control.stop());

test('it is OpenAPI 3.1 and has every operation once, by its name', () => {
  assert.equal(document.openapi, '3.1.0');
  assert.deepEqual(document.servers, [{ url: 'http://127.0.0.1:8080' }]);
  const ids: string[] = [];
  for (const path of Object.values<Record<string, { operationId?: string }>>(document.paths)) {
    for (const { operationId } of Object.values(path)) if (operationId) ids.push(operationId);
  }
  ids.push(...Object.keys(document['x-rpc-methods']));
  assert.deepEqual(ids.sort(), operations.map(({ name }) => name).sort());
});

test('it has the routes that are no operations, with what they ask for', () => {
  assert.deepEqual(document.paths['/health'].get.security, []);
  assert.deepEqual(document.paths['/v1/git/{slug}/git-receive-pack'].post.security, [{ git: [] }]);
  for (const path of ['/ready', '/rpc', '/openapi.json', '/v1/edge/tls-ask'])
    assert.ok(document.paths[path], path);
});

test('every parameter in braces is described, every reference leads somewhere', () => {
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
});

test('inputs are split into path, query and body, and answers have their statuses', () => {
  const { get, post } = document.paths['/v1/apps'];
  assert.deepEqual(
    get.parameters.map(({ name }: { name: string }) => name),
    ['owner', 'limit', 'cursor'],
  );
  const { schema } = post.requestBody.content['application/json'];
  assert.deepEqual(
    [Object.keys(schema.properties), schema.required, schema.additionalProperties],
    [['slug', 'owner'], ['slug'], false],
  );
  assert.ok(post.responses[201] && post.responses[403] && post.responses[409]);
  assert.deepEqual(Object.keys(document.paths['/v1/apps/{id}/env'].post.responses).slice(0, 2), [
    '200',
    '201',
  ]);
  const stream = document.paths['/v1/apps/{id}/events/stream'].get.responses[200].content;
  assert.ok(stream['text/event-stream']);
});
