// Git over HTTP: authentication, the order of refusals, and what reaches the host.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { API_KEY, TestControl, TOKEN } from '../../support/handlers/control.ts';

let control: TestControl;
let id: string;
before(async () => {
  control = await TestControl.start();
  ({ id } = await control.create('repository'));
  await addAccount('viewer', 'view');
  await addAccount('pusher', 'push');
  await addAccount('stranger', null);
});
after(() => control.stop());

const keyOf = (account: string) => `cellar_key-of-${account}`;
async function addAccount(account: string, role: string | null): Promise<void> {
  const database = await control.database();
  const hash = createHash('sha256').update(keyOf(account)).digest('hex');
  const run = (sql: string, ...values: unknown[]) =>
    database
      .prepare(sql)
      .bind(...values)
      .run();
  await run(
    "INSERT INTO accounts (id, name, role, created_at) VALUES (?, ?, 'member', '')",
    account,
    account,
  );
  await run(
    "INSERT INTO keys (id, account_id, name, hash, created_at) VALUES (?, ?, '', ?, '')",
    account,
    account,
    hash,
  );
  if (role) await run("INSERT INTO collaborators VALUES (?, ?, ?, '')", id, account, role);
}

const basic = (key: string, user = 'git') => ({ authorization: `Basic ${btoa(`${user}:${key}`)}` });
const refs = (slug: string, headers: Record<string, string>, service = 'git-upload-pack') =>
  control.fetch('GET', `/v1/git/${slug}/info/refs?service=${service}`, { headers });
const post = (service: string, headers: Record<string, string>, slug = 'repository') =>
  control.fetch('POST', `/v1/git/${slug}/${service}`, {
    headers: { 'content-type': `application/x-${service}-request`, ...headers },
    body: '0000',
  });

test('without a key, with a wrong one or as another user git gets 401, for unknown slugs too', async () => {
  const wrong: Record<string, string>[] = [
    {},
    basic('wrong'),
    basic(API_KEY, 'admin'),
    basic(''),
    { authorization: 'Basic !' },
    { authorization: `Bearer ${TOKEN}` },
    basic(TOKEN),
  ];
  for (const headers of wrong) {
    for (const slug of ['repository', 'nowhere']) {
      const { status, body, headers: sent } = await refs(slug, headers);
      assert.deepEqual([status, body.code], [401, 'unauthorized']);
      assert.match(sent.get('www-authenticate')!, /^Basic realm=/);
    }
  }
});

test('with a right key an unknown slug is 404, then a missing role 403', async () => {
  assert.equal((await refs('nowhere', basic(keyOf('stranger')))).status, 404);
  assert.equal((await refs('repository', basic(keyOf('stranger')))).status, 403);
  assert.equal((await post('git-receive-pack', basic(keyOf('viewer')))).status, 403);
});

test('view may fetch but not begin a push, push may push, the owner is admin; the host gets the role', async () => {
  const viewer = basic(keyOf('viewer'));
  assert.equal((await refs('repository', viewer)).status, 200);
  assert.equal((await refs('repository', viewer, 'git-receive-pack')).status, 403);
  assert.equal((await refs('repository', basic(keyOf('pusher')), 'git-receive-pack')).status, 200);
  assert.equal((await post('git-upload-pack', viewer)).status, 200);
  assert.equal((await post('git-receive-pack', basic(keyOf('pusher')))).status, 200);
  assert.equal((await post('git-receive-pack', basic(API_KEY))).status, 200);
  const roles = control.host.calls('POST', `/git/${id}/git-receive-pack`).map(({ headers }) => headers);
  assert.deepEqual(
    roles.map((headers) => [headers['x-cellar-role'], headers['x-cellar-slug']]),
    [
      ['push', 'repository'],
      ['admin', 'repository'],
    ],
  );
});

test('query, body, protocol and coding are forwarded, the key is not', async () => {
  const before = control.host.sent.length;
  const answer = await refs('repository', { ...basic(API_KEY), 'git-protocol': 'version=2' });
  assert.equal(answer.headers.get('content-type'), 'application/x-git');
  await post('git-upload-pack', basic(API_KEY));
  const [first, second] = control.host.sent.slice(before);
  assert.equal(first!.path, `/git/${id}/info/refs?service=git-upload-pack`);
  assert.equal(first!.headers['git-protocol'], 'version=2');
  assert.deepEqual([second!.body, second!.headers['content-encoding']], ['0000', undefined]);
  assert.equal(second!.headers['content-type'], 'application/x-git-upload-pack-request');
  assert.doesNotMatch(JSON.stringify([first, second]), /Basic/);
});

test('a refusal is plain text for git, which shows it, and a problem for others', async () => {
  const viewer = basic(keyOf('viewer'));
  const shown = await refs('repository', { ...viewer, 'user-agent': 'git/2.39.5' }, 'git-receive-pack');
  assert.equal(shown.headers.get('content-type'), 'text/plain; charset=utf-8');
  assert.deepEqual(
    [shown.status, shown.text],
    [403, 'This operation needs the role push on the app; your role is view.\n'],
  );
  const asked = await refs('repository', { 'user-agent': 'git/2.39.5' });
  assert.match(asked.headers.get('www-authenticate')!, /^Basic realm=/);
  assert.equal((await refs('repository', viewer, 'git-receive-pack')).body.code, 'forbidden');
});

test('the git host serves /<slug>/…, with and without .git', async () => {
  for (const path of ['/repository/', '/repository.git/', '/v1/git/repository/', '/v1/git/repository.git/']) {
    const { status } = await control.at(
      'git.localhost',
      `${path}info/refs?service=git-upload-pack`,
      basic(API_KEY),
    );
    assert.equal(status, 200, path);
  }
  const asked = await control.at('git.localhost', '/repository/info/refs?service=git-upload-pack');
  assert.match(String(asked.headers['www-authenticate']), /^Basic/);
  const pushed = await control.at('git.localhost', '/repository/git-receive-pack', basic(API_KEY), '0000');
  assert.equal(pushed.text, `git /git/${id}/git-receive-pack 0000`);
});

test('the dumb protocol and other paths are not supported', async () => {
  assert.equal(
    (await control.fetch('GET', '/v1/git/repository/info/refs', { headers: basic(API_KEY) })).status,
    403,
  );
  for (const path of ['/v1/git/repository/HEAD', '/v1/git/repository/objects/info/packs', '/v1/git/']) {
    assert.equal((await control.fetch('GET', path, { headers: basic(API_KEY) })).status, 404, path);
  }
});

test('Git LFS is answered in its own format that its objects are not stored here', async () => {
  for (const path of ['objects/batch', 'locks/verify']) {
    const { status, text, headers } = await control.fetch('POST', `/v1/git/repository.git/info/lfs/${path}`, {
      headers: { 'content-type': 'application/vnd.git-lfs+json' },
      body: '{}',
    });
    assert.deepEqual([status, headers.get('content-type')], [501, 'application/vnd.git-lfs+json']);
    assert.match(JSON.parse(text).message, /does not store Git LFS objects: `git push --no-verify`/);
  }
});

test('git-auth answers user and role to a caller with the token', async () => {
  const ask = (question: object, headers: Record<string, string> = { authorization: `Bearer ${TOKEN}` }) =>
    control.fetch('POST', '/internal/git-auth', {
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(question),
    });
  const right = await ask({ slug: 'repository', key: keyOf('pusher'), need: 'push' });
  assert.deepEqual([right.status, right.body], [200, { user_id: 'pusher', role: 'push' }]);
  assert.equal((await ask({ slug: 'repository', key: keyOf('viewer'), need: 'push' })).status, 403);
  assert.equal((await ask({ slug: 'nowhere', key: API_KEY, need: 'view' })).status, 404);
  assert.equal((await ask({ slug: 'repository', key: 'wrong', need: 'view' })).status, 401);
  assert.equal((await ask({ slug: 'repository', key: API_KEY, need: 'view' }, {})).status, 401);
});

test('an external control UI can decide instead, and an answer without a role is a refusal', async () => {
  const outside = await TestControl.start({ RUNNER_UI_URL: 'http://ui.example' });
  try {
    await outside.create('guarded');
    const get = () =>
      outside.fetch('GET', '/v1/git/guarded/info/refs?service=git-upload-pack', { headers: basic('any') });
    const expected: [number, unknown, number][] = [
      [200, { user_id: 'u', role: 'view' }, 200],
      [200, { user_id: 'u' }, 403],
      [200, { user_id: 'u', role: 'king' }, 403],
      [401, {}, 401],
      [403, {}, 403],
      [404, {}, 404],
      [500, {}, 503],
    ];
    for (const [status, body, answered] of expected) {
      outside.host.controlUi = [status, body];
      assert.equal((await get()).status, answered, JSON.stringify([status, body]));
    }
    const asked = outside.host.calls('POST', '/ui/git-auth')[0]!;
    assert.deepEqual(JSON.parse(asked.body), { slug: 'guarded', key: 'any', need: 'view' });
  } finally {
    await outside.stop();
  }
});

test('a fetch reaches the host decompressed, and one over 4 MiB gets a refusal that git shows', async () => {
  const fetched = (body: Buffer, coding?: string) =>
    control.fetch('POST', '/v1/git/repository/git-upload-pack', {
      headers: { ...basic(keyOf('viewer')), ...(coding && { 'content-encoding': coding }) },
      body,
    });
  const words = `0032have ${'a'.repeat(40)}\n`.repeat(2_000);
  for (const [body, coding] of [
    [Buffer.from(words)],
    [gzipSync(words), 'gzip'],
    [gzipSync(words), 'x-gzip'],
  ] as const) {
    assert.equal((await fetched(body, coding)).status, 200);
    const sent = control.host.sent.at(-1)!;
    assert.equal(Buffer.from(sent.body).toString(), words);
    assert.equal(sent.headers['content-encoding'], undefined);
  }
  const { length } = control.host.sent;
  const many = words.repeat(50);
  for (const [body, coding] of [
    [Buffer.from(many)],
    [gzipSync(many), 'gzip'],
    [gzipSync(Buffer.alloc(2 ** 26)), 'gzip'],
  ] as const) {
    const refused = await fetched(body, coding);
    assert.match(
      refused.text,
      /^00[0-9a-f]{2}ERR A fetch may name at most 4 MiB of commits and refs, decompressed/,
    );
    assert.equal(refused.headers.get('content-type'), 'application/x-git-upload-pack-result');
  }
  assert.equal((await fetched(Buffer.from(words), 'gzip')).status, 400, 'not gzip at all');
  assert.equal((await fetched(Buffer.from(words), 'br')).status, 415);
  assert.equal(control.host.sent.length, length, 'the host was not asked');
});

test('after a rename the old remote answers the new one to callers with a role, until another app has the slug', async () => {
  const { id: renamed } = await control.create('old-name');
  await control.api('POST', `/v1/apps/${renamed}/rename`, { slug: 'new-name' });
  const asGit = { ...basic(API_KEY), 'user-agent': 'git/2.47.0' };
  for (const service of ['git-upload-pack', 'git-receive-pack']) {
    const { status, text } = await refs('old-name', asGit, service);
    assert.equal(status, 404);
    assert.match(
      text,
      /The app old-name is called new-name now: `git remote set-url <remote> http:\/\/git\.localhost:8787\/new-name`/,
    );
  }
  assert.match((await refs('old-name', basic(keyOf('stranger')))).body.detail, /There is no app old-name\.$/);
  await control.api('POST', `/v1/apps/${renamed}/rename`, { slug: 'old-name' });
  assert.equal((await refs('old-name', basic(API_KEY))).status, 200);
  await control.api('DELETE', `/v1/apps/${renamed}`);
  assert.match((await refs('new-name', basic(API_KEY))).body.detail, /There is no app new-name\.$/);
});

test('a push to an unknown slug is answered with how to make the app', async () => {
  const asGit = { ...basic(API_KEY), 'user-agent': 'git/2.47.0' };
  const { status, text } = await refs('shop', asGit, 'git-receive-pack');
  assert.equal(status, 404);
  assert.match(text, /There is no app shop\. `cellar create shop` makes it, or POST .*\/v1\/apps with/);
  assert.equal((await control.api('GET', '/v1/apps/shop')).status, 404);
});

test('where RUNNER_PUSH_TO_CREATE is on, it makes the app for the account of the key, within its quota', async (t) => {
  const other = await TestControl.start({ RUNNER_PUSH_TO_CREATE: 'on', RUNNER_MAX_APPS_PER_USER: '1' });
  t.after(() => other.stop());
  const account = await other.call('accounts.create', { name: 'Ada', email: 'ada@example.com' });
  const { key } = await other.call('keys.create', { account: account.id });
  const asked = (slug: string, service = 'git-receive-pack', headers = basic(key)) =>
    other.fetch('GET', `/v1/git/${slug}/info/refs?service=${service}`, {
      headers: { ...headers, 'user-agent': 'git/2.47.0' },
    });
  assert.equal((await asked('shop', 'git-upload-pack')).status, 404, 'a clone makes nothing');
  assert.equal((await asked('shop', 'git-receive-pack', basic('wrong'))).status, 401);
  assert.match((await asked('api')).text, /no app can have this name: the name is reserved/);
  const [first, second] = await Promise.all([asked('shop'), asked('shop')]);
  assert.deepEqual([first.status, second.status], [200, 200], first.text + second.text);
  assert.equal((await other.api('GET', '/v1/apps/shop')).body.owner, account.id);
  const over = await asked('second');
  assert.equal(over.status, 403);
  assert.match(over.text, /1 apps?|quota/);
});
