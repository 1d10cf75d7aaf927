// Junk that reaches no schema: bodies that do not parse, messages that are not calls, and unknown paths.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as fc from 'fast-check';
import { operations } from '../../../handlers/contract/index.ts';
import type { Operation } from '../../../handlers/contract/operation.ts';
import { junkTexts } from '../../support/handlers/arbitraries.ts';
import { type Answer, TestControl, TOKEN } from '../../support/handlers/control.ts';
import { randomCases } from '../../support/random.ts';

const declared: readonly Operation[] = operations;

let control: TestControl;
let id: string;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1000000' });
  ({ id } = await control.create('junk-yard'));
});
after(() => control.stop());

/** Bodies that every route refuses, and the error code of each. */
const bodies: [name: string, body: string | Uint8Array, code: string, type?: string][] = [
  ['a depth bomb', '['.repeat(100_000), 'malformed_json'],
  ['a depth bomb in an object', '{"a":'.repeat(100_000), 'malformed_json'],
  ['a name twice', '{"slug": "abc", "slug": "abd"}', 'malformed_json'],
  ['a cut text', '{"slug": "ab', 'malformed_json'],
  ['invalid UTF-8', new Uint8Array([0x7b, 0x22, 0xc0, 0xaf, 0x22, 0x3a, 0x31, 0x7d]), 'malformed_json'],
  ['a lone surrogate in UTF-8', new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]), 'malformed_json'],
  ['UTF-16', Buffer.from('{"slug": "abc"}', 'utf16le'), 'malformed_json'],
  ['a comment', '{} // none', 'malformed_json'],
  ['NaN', '{"value": NaN}', 'malformed_json'],
  ['a form', 'slug=abc', 'unsupported_media_type', 'application/x-www-form-urlencoded'],
  ['a text', '{"slug": "abc"}', 'unsupported_media_type', 'text/plain'],
  ['no type', '{"slug": "abc"}', 'unsupported_media_type', ''],
  ['a list', '[1]', 'invalid_input'],
  ['a number', '1', 'invalid_input'],
  ['a text alone', '"slug"', 'invalid_input'],
  ['null', 'null', 'invalid_input'],
  ['a name that readers drop', '{"__proto__": {"slug": "abc"}}', 'malformed_json'],
  ['half a character', '{"slug": "\\ud800"}', 'malformed_json'],
  ['names of methods', '{"constructor": {}, "toString": 1}', 'invalid_input'],
  ['a huge number', '{"hasOwnProperty": 1e999}', 'invalid_input'],
];

test('every route with a body refuses junk, and says what is wrong', async () => {
  const before = await snapshot();
  const routes = declared.filter(({ path, method }) => path !== null && /^(POST|PATCH)$/.test(method));
  for (const { method, path } of routes) {
    const url = path!.replace(':id', id).replace(/:\w+/g, 'x');
    for (const [name, body, code, type = 'application/json'] of bodies) {
      const answer = await sendBytes(method, url, body, type);
      assert.equal(answer.body?.code, code, `${name} to ${method} ${url}: ${answer.text}`);
      assert.ok(answer.status >= 400 && answer.status < 500);
      assert.ok(answer.headers.get('x-request-id'));
    }
  }
  assert.deepEqual(await snapshot(), before);
});

test('JSON-RPC refuses the same bodies', async () => {
  for (const [name, body, code, type = 'application/json'] of bodies) {
    const { status, body: answer, text } = await sendBytes('POST', '/rpc', body, type);
    assert.equal(status, code === 'unsupported_media_type' ? 415 : 200, name);
    const [first] = [answer].flat();
    assert.deepEqual([first.id, first.error.data.code], [null, code], `${name}: ${text}`);
  }
});

const names = fc.constantFrom('jsonrpc', 'id', 'method', 'params', ...junkTexts);
const anything = fc.oneof(fc.constantFrom(...junkTexts), fc.jsonValue({ maxDepth: 4 }));
const looksLikeACall = fc.record(
  {
    jsonrpc: fc.oneof({ weight: 5, arbitrary: fc.constant('2.0') }, anything),
    id: anything,
    method: fc.oneof(
      fc.constantFrom(...declared.filter(({ kind }) => kind !== 'stream').map(({ name }) => name)),
      anything,
    ),
    params: anything,
  },
  { requiredKeys: [] },
);
const call = fc.oneof(looksLikeACall, fc.dictionary(names, anything, { maxKeys: 6 }), anything);

test('for any JSON that is sent to JSON-RPC, each part gets one result or one error', async () => {
  const property = fc.asyncProperty(fc.oneof(call, fc.array(call, { maxLength: 5 })), async (message) => {
    const { status, body, text, headers } = await control.rpc(JSON.stringify(message));
    assert.ok(headers.get('x-request-id'));
    if (status === 204) return assert.equal(text, '');
    assert.equal(status, 200, text);
    const isBatch = Array.isArray(message) && message.length > 0 && body.error?.code !== -32700;
    assert.equal(Array.isArray(body), isBatch, text);
    for (const answer of [body].flat()) {
      assert.equal(answer.jsonrpc, '2.0');
      assert.ok('id' in answer && 'error' in answer !== 'result' in answer, text);
      assert.ok(!answer.error || (answer.error.data.status !== 500 && answer.error.message), text);
    }
  });
  await fc.assert(property, { ...randomCases(80), endOnFailure: true });
});

test('for any path, method and headers the answer is no internal error', async () => {
  const segment = fc.oneof(
    fc.constantFrom('v1', 'apps', 'rpc', 'events', 'env', 'git', 'edge', 'internal', 'blob', id),
    fc.constantFrom(...junkTexts.map((text) => encodeURIComponent(text.toWellFormed()))),
    fc.constantFrom('%', '%ff', '%c0%af', '%00', ';', '//', '*'),
  );
  const path = fc
    .tuple(fc.constantFrom('/', '/v1/', `/v1/apps/${'x'.repeat(16)}/`, '/v1/apps/'), fc.array(segment))
    .map(([start, segments]) => start + segments.join('/'));
  const query = fc.constantFrom('', '?', '?limit=%ff', '?limit=1&limit=2', '?__proto__=1', '?cursor=W10');
  const method = fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS');
  const header = fc.string({ unit: fc.constantFrom('a', '0', ' ', '"', '%', 'ÿ', '#', '-'), maxLength: 300 });
  const property = fc.asyncProperty(method, path, query, header, async (verb, where, search, value) => {
    const headers = { 'last-event-id': value, 'x-request-id': value, 'idempotency-key': value };
    const { status, text } = await control.api(verb, where + search, undefined, headers);
    assert.ok(status < 500 || /"host_unavailable"/.test(text) || verb === 'HEAD', text);
  });
  await fc.assert(property, { ...randomCases(80), endOnFailure: true });
});

function sendBytes(method: string, path: string, body: string | Uint8Array, type: string): Promise<Answer> {
  // The body is sent as bytes, because `fetch` would add a content type to a text.
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : new Uint8Array(body);
  const headers = { authorization: `Bearer ${TOKEN}`, ...(type && { 'content-type': type }) };
  return control.fetch(method, path, { headers, body: bytes });
}

async function snapshot(): Promise<unknown> {
  const database = await control.database();
  return database.prepare('SELECT (SELECT count(*) FROM apps), (SELECT count(*) FROM events)').raw();
}
