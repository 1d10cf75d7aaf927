// Apps over REST: create, read, list, start and stop, delete.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '1000' });
});
after(() => control.stop());

test('a created app has every field of the contract, and the host was sent its whole wanted state', async () => {
  const { status, body, headers } = await control.api('POST', '/v1/apps', { slug: 'first' });
  assert.equal(status, 201);
  assert.ok(headers.get('x-request-id'));
  const { id, owner, created_at, ...rest } = body;
  assert.match(id, /^[0-9a-z]{16}$/);
  assert.match(owner, /^[0-9a-z]{16}$/);
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual(rest, {
    slug: 'first',
    desired_state: 'running',
    storage: 'local',
    home: null,
    replicas: 1,
    dispatch: null,
    maintenance: false,
    status: 'created',
    asleep_since: null,
    woke_at: null,
    url: 'http://first.localhost:8787',
    git_url: 'http://git.localhost:8787/first',
    live_deploy_id: null,
    deployed_at: null,
    last_error: null,
    warnings: [],
  });
  const { generation, ...wanted } = control.host.wanted.get(id)!;
  assert.ok(generation > 0);
  assert.deepEqual(wanted, {
    id,
    slug: 'first',
    owner,
    desired_state: 'running',
    hostnames: [],
    env: {},
    vars: {},
    builds: {
      root_directory: null,
      install_command: null,
      build_command: null,
      release_command: null,
      output_directory: null,
    },
    deploy_on: 'main',
    limits: { clientRpm: null, appRpm: null },
    previews: { branches: false, storage: 'empty', vars: {} },
    storage: 'local',
    replicas: 1,
  });
  assert.deepEqual((await control.api('GET', `/v1/apps/${id}`)).body, body);
  assert.deepEqual(await control.call('apps.get_by_slug', { slug: 'first' }), body);
});

test('an app keeps its data where its creation says, else in RUNNER_STORAGE', async (t) => {
  const other = await TestControl.start({ RUNNER_STORAGE: 'bucket', HAS_BUCKET: 'true' });
  t.after(() => other.stop());
  for (const [slug, storage, expected] of [
    ['by-setting', undefined, 'bucket'],
    ['by-field', 'local', 'local'],
    ['by-both', 'bucket', 'bucket'],
  ] as const) {
    const { body } = await other.api('POST', '/v1/apps', { slug, ...(storage && { storage }) });
    assert.equal(body.storage, expected);
    assert.equal(other.host.wanted.get(body.id)!.storage, expected);
  }
});

test('the bucket is refused without one, and storage cannot be changed', async () => {
  const { status, body } = await control.api('POST', '/v1/apps', { slug: 'homeless', storage: 'bucket' });
  assert.equal(status, 400);
  assert.deepEqual(body.errors, [
    { path: 'storage', message: 'needs a bucket; ask the operator of Cellar to set RUNNER_BUCKET' },
  ]);
  const { body: app } = await control.api('POST', '/v1/apps', { slug: 'settled' });
  const update = { desired_state: 'running', storage: 'bucket' };
  const refused = await control.api('PATCH', `/v1/apps/${app.id}`, update);
  assert.equal(refused.status, 400);
  assert.equal(refused.body.errors[0].path, 'storage');
});

test('an app in the bucket gets more processes, and one on the machine does not', async (t) => {
  const other = await TestControl.start({ HAS_BUCKET: 'true' });
  t.after(() => other.stop());
  const { body: hot } = await other.api('POST', '/v1/apps', { slug: 'hot-app', storage: 'bucket' });
  assert.equal(hot.replicas, 1);
  const scaled = await other.api('PATCH', `/v1/apps/${hot.id}`, { replicas: 3 });
  assert.equal(scaled.body.replicas, 3);
  assert.equal(other.host.wanted.get(hot.id)!.replicas, 3);
  assert.equal(
    (await other.api('PATCH', `/v1/apps/${hot.id}`, { desired_state: 'stopped' })).body.replicas,
    3,
  );
  const moved = await other.api('POST', `/v1/apps/${hot.id}/move`, { to: 'local' });
  assert.equal(moved.body.code, 'app_immovable');
  const { body: local } = await other.api('POST', '/v1/apps', { slug: 'local-app' });
  for (const [id, input, path] of [
    [local.id, { replicas: 2 }, 'replicas'],
    [hot.id, { replicas: 17 }, 'replicas'],
    [hot.id, { replicas: 0 }, 'replicas'],
    [hot.id, {}, undefined],
  ] as const) {
    const { status, body } = await other.api('PATCH', `/v1/apps/${id}`, input);
    assert.equal(status, 400);
    assert.equal(body.errors?.[0]?.path, path);
  }
  assert.equal((await other.api('PATCH', `/v1/apps/${local.id}`, { replicas: 1 })).status, 200);
});

test('a value outside its bounds or choices is refused with the allowed ones', async () => {
  const { body: app } = await control.api('POST', '/v1/apps', { slug: 'bounded' });
  const told = async (method: string, path: string, input?: unknown) =>
    (await control.api(method, path, input)).body.errors.map(
      (error: { path: string; message: string }) => `${error.path} ${error.message}`,
    );
  const at = `/v1/apps/${app.id}`;
  assert.deepEqual(await told('PATCH', at, { desired_state: 'paused' }), [
    'desired_state must be running or stopped',
  ]);
  assert.deepEqual(await told('GET', '/v1/apps?limit=0'), ['limit must be at least 1']);
  assert.deepEqual(await told('GET', '/v1/apps?limit=201'), ['limit must be at most 200']);
  const [files, message] = [[], 'a'.repeat(100_000)];
  const commit = await told('POST', `${at}/source/commit`, { message, author_email: 'a@example.com', files });
  assert.match(commit[0], /^message must have at most \d+ characters$/);
  assert.equal(commit[1], 'files must not be empty');
});

test('a slug that is ill-formed, reserved or missing is refused and named', async () => {
  for (const slug of [
    'ab',
    'A-b-c',
    '-abc',
    'abc-',
    'a_b_c',
    'a'.repeat(41),
    'xn--abc',
    'git',
    'control',
    7,
    null,
  ]) {
    const { status, body } = await control.api('POST', '/v1/apps', { slug });
    assert.equal(status, 400, String(slug));
    assert.equal(body.code, 'invalid_input');
    assert.equal(body.errors[0].path, 'slug');
  }
  const twoHyphens = (await control.api('POST', '/v1/apps', { slug: 'ab--cd' })).body;
  assert.deepEqual(twoHyphens.errors, [
    {
      path: 'slug',
      message: 'must not have two hyphens in a row: `--` is kept for previews, <name>--<slug>',
    },
  ]);
  const { body } = await control.api('POST', '/v1/apps', {});
  assert.deepEqual(body.errors, [{ path: 'slug', message: 'is required' }]);
  const typed = (await control.api('POST', '/v1/apps', { slug: 7, owner: ['x'] })).body;
  assert.deepEqual(typed.errors, [
    { path: 'slug', message: 'must be a string' },
    { path: 'owner', message: 'must be a string' },
  ]);
  const page = (await control.api('GET', '/v1/apps?limit=many')).body;
  assert.deepEqual(page.errors, [{ path: 'limit', message: 'must be a number' }]);
  assert.equal((await control.api('POST', '/v1/apps', { slug: 'a'.repeat(40) })).status, 201);
  assert.equal((await control.api('POST', '/v1/apps', { slug: 'a1b' })).status, 201);
});

test('apps are listed newest first even when the clock goes back', async () => {
  const { id } = await control.create('from-the-future');
  const database = await control.database();
  await database.prepare("UPDATE apps SET id = 'zzzzzzzzzzzzzzzz' WHERE id = ?").bind(id).run();
  await control.create('after-it');
  const slugs = async (query: string) => {
    const { body } = await control.api('GET', `/v1/apps?limit=1${query}`);
    return [body.items[0].slug, body.next_cursor];
  };
  const [newest, cursor] = await slugs('');
  const [second] = await slugs(`&cursor=${cursor}`);
  assert.deepEqual([newest, second], ['after-it', 'from-the-future']);
});

test('an app whose slug is as long as an id is found by it; a slug in the format of an id is refused', async () => {
  for (const slug of ['marketingwebsite', 'customerportal12']) {
    const { id } = await control.create(slug);
    assert.equal((await control.api('GET', `/v1/apps/${slug}`)).body.id, id);
  }
  const { body } = await control.api('POST', '/v1/apps', { slug: '2026c0nference16' });
  assert.equal(body.errors[0].path, 'slug');
});

test('a taken slug is refused with 409, and an unknown owner with 404', async () => {
  await control.create('taken');
  const taken = await control.api('POST', '/v1/apps', { slug: 'taken' });
  assert.deepEqual([taken.status, taken.body.code], [409, 'slug_taken']);
  const nobody = await control.api('POST', '/v1/apps', { slug: 'other', owner: 'nobody' });
  assert.deepEqual([nobody.status, nobody.body.code], [404, 'account_not_found']);
});

test('when the host cannot be reached, create answers 503 and leaves nothing', async () => {
  control.host.failing = 500;
  const { status, body, headers } = await control.api('POST', '/v1/apps', { slug: 'unlucky' });
  control.host.failing = null;
  assert.deepEqual([status, body.code], [503, 'host_unavailable']);
  assert.ok(headers.get('retry-after'));
  assert.equal((await control.refusal('apps.get_by_slug', { slug: 'unlucky' })).code, 'app_not_found');
  await control.create('unlucky');
});

test('apps are listed newest first, page by page, without a gap or a repeat', async () => {
  const slugs = ['page-1', 'page-2', 'page-3', 'page-4', 'page-5'];
  for (const slug of slugs) await control.create(slug);
  const seen: string[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const { body }: { body: { items: { slug: string }[]; next_cursor: string | null } } = await control.api(
      'GET',
      `/v1/apps?limit=2${cursor && `&cursor=${cursor}`}`,
    );
    seen.push(...body.items.map(({ slug }) => slug));
    cursor = body.next_cursor;
  }
  assert.deepEqual(seen.slice(0, 5), slugs.toReversed());
  assert.equal(new Set(seen).size, seen.length);
  assert.deepEqual((await control.api('GET', '/v1/apps?owner=nobody')).body, {
    items: [],
    next_cursor: null,
  });
});

test('stopping and starting write a raised generation and reach the host; starting a stopped app sets woke_at', async () => {
  const { id } = await control.create('switch');
  const first = control.host.wanted.get(id)!.generation;
  const stopped = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  assert.deepEqual([stopped.status, stopped.body.status, stopped.body.woke_at], [200, 'stopped', null]);
  assert.equal(control.host.wanted.get(id)!.desired_state, 'stopped');
  assert.ok(control.host.wanted.get(id)!.generation > first);
  const started = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'running' });
  assert.equal(started.body.desired_state, 'running');
  assert.ok(started.body.woke_at);
  const again = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'running' });
  assert.equal(again.body.woke_at, started.body.woke_at);
});

test('an update of an unknown app, to an unknown state, or of an unknown field is refused', async () => {
  const { id } = await control.create('strict');
  assert.equal((await control.api('PATCH', '/v1/apps/nope', { desired_state: 'stopped' })).status, 404);
  const wrong = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'paused' });
  assert.equal(wrong.body.errors[0].path, 'desired_state');
  const unknown = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped', state: 'x' });
  assert.deepEqual(unknown.body.errors, [{ path: 'state', message: 'unknown field' }]);
  const doubled = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped', id: 'other' });
  assert.equal(doubled.body.errors[0].path, 'id');
  assert.equal(control.host.wanted.get(id)!.desired_state, 'running');
});

test('a state that the host refuses as stale is sent again above the host’s generation', async () => {
  const { id } = await control.create('restored');
  const wanted = control.host.wanted.get(id)!;
  control.host.wanted.set(id, { ...wanted, generation: wanted.generation + 1000 });
  const { status, body } = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  assert.deepEqual([status, body.status], [200, 'stopped']);
  assert.ok(control.host.wanted.get(id)!.generation > wanted.generation + 1000);
});

test('a deleted app is gone at once, and its slug is free when the host has confirmed', async () => {
  const { id } = await control.create('leaving');
  control.host.failing = 500;
  const { status, text } = await control.api('DELETE', `/v1/apps/${id}`);
  assert.deepEqual([status, text], [204, '']);
  control.host.failing = null;
  assert.equal((await control.api('GET', `/v1/apps/${id}`)).status, 404);
  assert.equal((await control.api('DELETE', `/v1/apps/${id}`)).status, 404);
  assert.equal((await control.api('POST', '/v1/apps', { slug: 'leaving' })).body.code, 'slug_taken');
  assert.equal((await control.internal('/internal/reconcile', {})).status, 200);
  assert.equal(control.host.wanted.has(id), false);
  await control.create('leaving');
});

test('git-remote answers the push URL and commands, with a placeholder for the key', async () => {
  const { id } = await control.create('remote');
  assert.deepEqual((await control.api('POST', `/v1/apps/${id}/git-remote`)).body, {
    url: 'http://git.localhost:8787/remote',
    url_with_key: 'http://git:<API_KEY>@git.localhost:8787/remote',
    username: 'git',
    branch: 'main',
    clone: 'git clone "http://git:<API_KEY>@git.localhost:8787/remote"',
    push: 'git push "http://git:<API_KEY>@git.localhost:8787/remote" HEAD:main',
  });
});

test('reads and changes take an app’s id or slug, and an account needs a role on the app', async () => {
  const { body: app } = await control.api('POST', '/v1/apps', { slug: 'by-name' });
  assert.deepEqual((await control.api('GET', '/v1/apps/by-name')).body, app);
  assert.equal((await control.api('POST', '/v1/apps/by-name/env', { name: 'A', value: '1' })).status, 201);
  assert.deepEqual((await control.call('env.list', { id: app.id })).items.length, 1);
  assert.equal((await control.api('GET', '/v1/apps/by-another-name')).status, 404);
  const { id } = await control.call('accounts.create', { name: 'Ada', email: 'ada@example.com' });
  const { key } = await control.call('keys.create', { account: id });
  const headers = { authorization: `Bearer ${key}` };
  assert.equal((await control.fetch('GET', '/v1/apps/by-name', { headers })).status, 403);
  assert.equal((await control.api('DELETE', '/v1/apps/by-name')).status, 204);
  assert.equal((await control.api('GET', '/v1/apps/by-name')).status, 404);
});
