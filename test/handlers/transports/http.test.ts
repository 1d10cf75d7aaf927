// Rules of every route: credentials, request ids, bodies, problems.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { PREVIEW_NAMES, PreviewNames } from '../../../handlers/preview-names.ts';
import { TestControl, TOKEN } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start();
});
after(() => control.stop());

test('a route without the token, or with a wrong one, answers 401 before anything else', async () => {
  const credentials: Record<string, string>[] = [
    {},
    { authorization: 'Bearer wrong' },
    { authorization: `Basic ${btoa(`git:${TOKEN}`)}` },
    { 'x-runner-token': 'wrong' },
    { authorization: 'Bearer wrong', 'x-runner-token': TOKEN },
  ];
  for (const headers of credentials) {
    for (const path of ['/v1/apps', '/v1/apps/nope', '/nowhere', '/rpc']) {
      const { status, body, headers: sent } = await control.fetch('GET', path, { headers });
      assert.deepEqual([status, body.code], [401, 'unauthorized'], path);
      assert.match(sent.get('www-authenticate')!, /^Bearer/);
      if (Object.keys(headers).length === 0) assert.match(body.detail, /default: `\.cellar\/token`/);
    }
    const { status, body, headers: sent } = await control.fetch('POST', '/rpc', { headers });
    assert.deepEqual([status, body.jsonrpc, body.id, body.error.code], [401, '2.0', null, -32000]);
    assert.equal(body.error.data.code, 'unauthorized');
    assert.deepEqual([sent.get('content-type'), sent.get('cache-control')], ['application/json', 'no-store']);
  }
});

test('the token is accepted as a bearer and in the three fallback headers', async () => {
  const accepted: Record<string, string>[] = [
    { authorization: `bearer ${TOKEN}` },
    { 'x-runner-token': TOKEN },
    { 'x-host-token': TOKEN },
    { 'x-agent-token': TOKEN },
  ];
  for (const headers of accepted) {
    assert.equal((await control.fetch('GET', '/v1/apps', { headers })).status, 200);
  }
});

test('every response carries a request id: the one given if it is well formed, else a new one', async () => {
  const given = await control.api('GET', '/v1/apps', undefined, { 'x-request-id': 'gateway-17.a' });
  assert.equal(given.headers.get('x-request-id'), 'gateway-17.a');
  const bad = await control.api('GET', '/nowhere', undefined, { 'x-request-id': 'two words' });
  assert.match(bad.headers.get('x-request-id')!, /^[0-9a-f-]{36}$/);
  assert.ok((await control.fetch('GET', '/v1/apps')).headers.get('x-request-id'));
});

test('an unknown route answers 404 route_not_found as a problem, naming the methods of the path', async () => {
  const unrouted = await control.api('GET', '/v1/nowhere');
  assert.equal(unrouted.status, 404);
  assert.equal(unrouted.headers.get('content-type'), 'application/problem+json');
  assert.deepEqual(unrouted.body, {
    type: 'about:blank',
    title: 'Not Found',
    status: 404,
    detail: 'There is no route GET /v1/nowhere.',
    code: 'route_not_found',
  });
  const method = await control.api('PUT', '/v1/apps');
  assert.equal(method.body.code, 'route_not_found');
  assert.match(method.body.detail, /takes GET, POST/);
  assert.equal(
    (await control.api('GET', '/rpc')).body.detail,
    'There is no route GET /rpc. This path takes POST.',
  );
  assert.match((await control.api('POST', '/openapi.json')).body.detail, /takes GET\./);
});

test('a body that is not JSON, not UTF-8, no object or too deep is refused with the reason', async () => {
  const malformed = await control.api('POST', '/v1/apps', '{"slug": }');
  assert.deepEqual([malformed.status, malformed.body.code], [400, 'malformed_json']);
  assert.match(malformed.body.detail, /Unexpected token '}'.*slug/);
  const list = await control.api('POST', '/v1/apps', '[]');
  assert.deepEqual([list.status, list.body.code], [400, 'invalid_input']);
  const bytes = await control.fetch('POST', '/v1/apps', {
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: new Uint8Array([0x7b, 0xff, 0x7d]),
  });
  assert.match(bytes.body.detail, /UTF-8/);
  const bomb = await control.api('POST', '/v1/apps', '['.repeat(100_000));
  assert.deepEqual([bomb.status, bomb.body.code], [400, 'malformed_json']);
  assert.match(bomb.body.detail, /deeper/);
  const prototype = await control.api('POST', '/v1/apps', '{"slug": "proto", "__proto__": {}}');
  assert.equal(prototype.status, 400);
});

test('a duplicate member name is refused and named, at any depth and in any escaping', async () => {
  const { id } = await control.create('twice');
  for (const [path, body, name] of [
    ['/v1/apps', '{"slug": "doubled", "slug": "doubled-2"}', '"slug"'],
    ['/v1/apps', '{"slug": "doubled", "sl\\u0075g" : "doubled-2"}', '"sl\\u0075g"'],
    [`/v1/apps/${id}/events`, '{"channel": "c", "event": "e", "tags": {"a": 1, "b": 2, "a": 3}}', '"a"'],
  ] as const) {
    const { status, body: problem } = await control.api('POST', path, body);
    assert.deepEqual([status, problem.code], [400, 'malformed_json']);
    assert.equal(problem.detail, `An object in the JSON has the name ${name} twice.`);
  }
  const call = '{"jsonrpc": "2.0", "id": 1, "method": "apps.list", "params": {"limit": 1, "limit": 2}}';
  assert.equal((await control.rpc(call)).body.error.code, -32700);
  const fine = '{"channel": "a", "event": "\\"a\\": \\\\", "tags": {"channel": "a", "event": ":"}}';
  assert.equal((await control.api('POST', `/v1/apps/${id}/events`, fine)).body.event, '"a": \\');
});

test('a body that parsers would read differently is refused: half a surrogate pair, the name __proto__', async () => {
  const { id } = await control.create('unicode');
  const send = (event: string, rest = '') =>
    control.api('POST', `/v1/apps/${id}/events`, `{"channel": "c", "event": ${event}${rest}}`);
  for (const half of ['"\\ud83d"', '"\\uDC4D\\uD83D"', '"\\\\\\ud83d"']) {
    const { status, body } = await send(half);
    assert.deepEqual(
      [status, body.code, body.detail],
      [
        400,
        'malformed_json',
        'A string in the JSON has an unpaired surrogate, which is half of a character.',
      ],
    );
  }
  for (const whole of ['"\\ud83d\\udc4d"', '"\\\\ud83d"', '"👍"'])
    assert.equal((await send(whole)).status, 201);
  const dropped = await send('"e"', ', "tags": {"__pr\\u006fto__": 1}');
  assert.deepEqual([dropped.status, dropped.body.code], [400, 'malformed_json']);
  assert.match(dropped.body.detail, /__proto__/);
  assert.equal((await send('"e"', ', "tags": {"constructor": 1}')).body.tags.constructor, 1);
});

test('the body null is not an empty body', async () => {
  const { id } = await control.create('nothing');
  assert.equal((await control.api('POST', `/v1/apps/${id}/git-remote`, 'null')).body.code, 'invalid_input');
  assert.equal((await control.api('POST', `/v1/apps/${id}/git-remote`)).status, 200);
});

test('a body over 1 MiB answers 413, whether or not its length was stated', async () => {
  const large = `{"slug": "${'x'.repeat(1024 * 1024)}"}`;
  const stated = await control.api('POST', '/v1/apps', large);
  assert.deepEqual([stated.status, stated.body.code], [413, 'body_too_large']);
  const streamed = await control.fetch('POST', '/v1/apps', {
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: new Blob([large]).stream(),
    duplex: 'half',
  } as RequestInit);
  assert.equal(streamed.status, 413);
});

test('a body of another type, charset or coding answers 415', async () => {
  const refused: Record<string, string>[] = [
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/x-www-form-urlencoded' },
    { 'content-type': 'application/json; charset=latin1' },
    { 'content-type': 'application/json', 'content-encoding': 'gzip' },
  ];
  for (const headers of refused) {
    const { status, body } = await control.api('POST', '/v1/apps', '{"slug": "typed"}', headers);
    assert.deepEqual([status, body.code], [415, 'unsupported_media_type'], JSON.stringify(headers));
  }
  const fine = { 'content-type': 'application/json; charset=UTF-8' };
  assert.equal((await control.api('POST', '/v1/apps', '{"slug": "typed"}', fine)).status, 201);
});

test('a query is validated like a body: unknown, duplicate and ill-typed names are refused', async () => {
  for (const [query, path] of [
    ['limit=0', 'limit'],
    ['limit=many', 'limit'],
    ['limit=2.5', 'limit'],
    ['limit=2&limit=3', 'limit'],
    ['cursor=nonsense', 'cursor'],
    ['page=2', 'page'],
    ['constructor=2', 'constructor'],
  ]) {
    const { status, body } = await control.api('GET', `/v1/apps?${query}`);
    assert.deepEqual([status, body.errors[0].path], [400, path], query!);
  }
  assert.equal((await control.api('POST', '/v1/apps?slug=query')).status, 400);
  assert.equal((await control.api('GET', '/v1/apps/%E0%A4%A')).status, 400);
});

test('a forged cursor in the form of a list’s own is refused', async () => {
  const { id } = await control.create('cursors');
  const made = (...parts: string[]) => Buffer.from(parts.join('\0')).toString('base64url');
  for (const place of ['', 'abc', '-1', '1.5', 'NaN', '1e308', '9'.repeat(20)]) {
    for (const [method, ...parts] of [
      ['apps.list', 'apps.list', place],
      ['deploys.list', `deploys.list ${id}`, place],
      ['users.list', `users.list ${id}`, place],
      ['previews.list', `previews.list ${id}`, place],
      ['paths.list', `paths.list ${id} 24`, place],
      ['spans.list', `spans.list ${id}`, place],
      ['requests.list', `requests.list ${id} {"hours":24}`, place],
      ['logs.list', `logs.list ${id} `, place],
      ['errors.list', `errors.list ${id}  open`, '1', place],
    ] as [string, ...string[]][]) {
      const params = { ...(method !== 'apps.list' && { id }), cursor: made(...parts) };
      const { body } = await control.api('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
      assert.equal(body.error?.data.errors[0].path, 'cursor', `${method} ${place}`);
    }
  }
});

test('a HEAD is answered as its GET, without a body', async () => {
  const { status, text } = await control.api('HEAD', '/v1/apps');
  assert.deepEqual([status, text], [200, '']);
});

test('certificates for preview names are limited, for each app by itself', () => {
  const names = new PreviewNames();
  const day = 24 * 3_600_000;
  for (let n = 0; n < PREVIEW_NAMES; n++) assert.ok(names.may('a', `branch-${n}`, n < 10 ? 0 : day));
  assert.ok(!names.may('a', 'one-more', day));
  assert.ok(names.may('a', 'branch-0', day), 'one that has it keeps it');
  assert.ok(names.may('b', 'one-more', day));
  for (let n = 0; n < 10; n++) assert.ok(names.may('a', `next-${n}`, 7 * day));
  assert.ok(!names.may('a', 'one-more', 7 * day));
});

test('tls-ask answers 200 for own names, apps that run or sleep, and proved domains; 404 for others', async () => {
  const { id } = await control.create('certified');
  const database = await control.database();
  const insert = database.prepare(
    "INSERT INTO domains (hostname, app_id, created_at, proved_at) VALUES (?, ?, '', ?)",
  );
  await insert.bind('shop.example', id, '2026-01-01T00:00:00.000Z').run();
  await insert.bind('pending.example', id, null).run();
  const ask = async (domain: string) =>
    (await control.fetch('GET', `/v1/edge/tls-ask?domain=${domain}`)).status;
  for (const domain of ['localhost', 'api.localhost', 'git.localhost', 'shop.example', 'SHOP.example.']) {
    assert.equal(await ask(domain), 200, domain);
  }
  for (const domain of [
    '',
    'nope.localhost',
    'a.certified.localhost',
    'example',
    'www.shop.example',
    'pending.example',
  ]) {
    assert.equal(await ask(domain), 404, domain);
  }
  const set = (columns: string) => database.prepare(`UPDATE apps SET ${columns} WHERE id = ?`).bind(id).run();
  assert.equal(await ask('certified.localhost'), 404, 'never deployed');
  await set("live_deploy_id = '1'");
  assert.equal(await ask('certified.localhost'), 200, 'live');
  await set("asleep_since = '2026-01-01T00:00:00.000Z'");
  assert.equal(await ask('certified.localhost'), 200, 'asleep');
  await set("asleep_since = NULL, desired_state = 'stopped'");
  assert.equal(await ask('certified.localhost'), 404, 'stopped');
  assert.equal(await ask('shop.example'), 200, 'a domain of a stopped app');
  assert.equal((await control.fetch('GET', '/v1/edge/nothing')).status, 404);
});

test('pages of the named origins may call the API, and no others', async (t) => {
  const other = await TestControl.start({ RUNNER_CORS_ORIGINS: 'https://a.example,https://b.example' });
  t.after(() => other.stop());
  const ask = (origin: string) =>
    other.fetch('OPTIONS', '/v1/apps', {
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization,content-type',
      },
    });
  const answered = await ask('https://b.example');
  assert.equal(answered.status, 204);
  assert.equal(answered.headers.get('access-control-allow-origin'), 'https://b.example');
  assert.equal(answered.headers.get('access-control-allow-headers'), 'authorization,content-type');
  assert.equal(answered.headers.get('access-control-allow-credentials'), null);
  for (const origin of ['https://c.example', 'null', 'https://a.example.evil.example']) {
    const refused = await ask(origin);
    assert.equal(refused.headers.get('access-control-allow-origin'), null, origin);
    assert.notEqual(refused.status, 204);
  }
  const listed = await other.api('GET', '/v1/apps', undefined, { origin: 'https://a.example' });
  assert.equal(listed.headers.get('access-control-allow-origin'), 'https://a.example');
  assert.match(listed.headers.get('vary')!, /origin/);
  const refused = await other.fetch('GET', '/v1/apps', { headers: { origin: 'https://a.example' } });
  assert.equal(refused.status, 401);
  assert.equal(refused.headers.get('access-control-allow-origin'), 'https://a.example', 'its page reads why');
});
