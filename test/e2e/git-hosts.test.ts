// Apps that are deployed from a repository on a Git host: by hand, by its webhook, and by polling.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { commit } from '../support/builds/projects.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { CERTIFICATE, GitHost, gitIn } from '../support/git/git-host.ts';
import { eventually } from '../support/processes.ts';

/** Timeout in ms. The first deploy of a Cellar resolves the registries' addresses, which may be slow. */
const DEPLOY_MS = 240_000;
const SECRET = 'a secret of sixteen or more'.replaceAll(' ', '-');

const cellar = new Cellar({ RUNNER_EGRESS_ALLOW: '127.0.0.1', SSL_CERT_FILE: CERTIFICATE });
const host = new GitHost();
before(async () => {
  await Promise.all([host.start(), cellar.start()]);
});
after(async () => {
  host.close();
  await cellar[Symbol.asyncDispose]();
});

// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the tests assert
async function rpc(method: string, params: object): Promise<any> {
  const response = await fetch(`${cellar.api}/rpc`, {
    method: 'POST',
    headers: { authorization: `Bearer ${cellar.token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    signal: AbortSignal.timeout(DEPLOY_MS),
  });
  return response.json();
}

function worker(text: string): string {
  return `export default { fetch: () => new Response(${JSON.stringify(text)}) };\n`;
}

/** Makes a repository on the Git host, with one commit. @returns where it is, and a function that commits another text */
function hosted(name: string, token: string | null = null) {
  const { repository, sha } = commit(cellar.directory, { 'index.js': worker('first') });
  host.repositories.set(name, { path: repository, token });
  const work = dirname(repository);
  const change = (text: string): string => {
    writeFileSync(join(work, 'index.js'), worker(text));
    gitIn(work, 'commit', '--quiet', '--all', '--message', text);
    return gitIn(work, 'rev-parse', 'HEAD');
  };
  return { url: host.url(name), sha, work, change };
}

/** Waits until an app answers with a text. */
async function serves(slug: string, text: string): Promise<void> {
  await eventually(async () => (await cellar.get(slug)).text === text, `${slug} serves ${text}`, DEPLOY_MS);
}

/** Waits until a commit of the connected repository was fetched. */
async function fetched(id: string, sha: string): Promise<void> {
  const last = async () => (await rpc('source.get', { id })).result.last_fetch;
  await eventually(async () => (await last())?.sha === sha, `${sha} is fetched`, DEPLOY_MS);
}

/** Sends a delivery of a webhook. */
async function deliver(
  id: string,
  headers: Record<string, string>,
  body: string,
): Promise<[number, unknown]> {
  const response = await fetch(`${cellar.api}/v1/hooks/${id}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  });
  return [response.status, await response.json()];
}

function hmac(body: string, secret = SECRET): string {
  return createHmac('sha256', secret).update(body).digest('hex');
}

let counted = 0;
/** Returns the body of a Git host's push webhook. Each call returns a different one. */
function push(ref = 'refs/heads/main', after = '1'.repeat(40)): string {
  return JSON.stringify({ ref, after, n: ++counted });
}

function github(body: string, secret = SECRET): Record<string, string> {
  return { 'x-github-event': 'push', 'x-hub-signature-256': `sha256=${hmac(body, secret)}` };
}

test('a connected repository is deployed at once, then by hand: the branch, a tag, a commit', async () => {
  const { url, sha, work, change } = hosted('by-hand');
  const id = await cellar.create('by-hand');
  assert.equal((await rpc('source.get', { id })).error.data.code, 'source_not_connected');
  const connected = (await rpc('source.connect', { id, url })).result;
  assert.match(connected.deploy_key, /^ssh-ed25519 AAAA\S+ cellar-by-hand$/);
  assert.match(connected.secret, /^[\da-f]{64}$/);
  assert.equal(connected.webhook_url, `${cellar.api}/v1/hooks/${id}`);
  await serves('by-hand', 'first');
  const shown = (await rpc('source.get', { id })).result;
  assert.equal(shown.last_fetch.sha, sha);
  assert.equal(shown.secret, undefined);
  assert.deepEqual((await rpc('source.sync', { id })).result, { sha, deploy_id: null });
  gitIn(work, 'tag', '--annotate', '--message', 'x', 'v1');
  const second = change('second');
  assert.equal((await rpc('source.sync', { id })).result.sha, second);
  assert.equal((await rpc('source.sync', { id, ref: 'v1' })).result.sha, sha);
  assert.equal((await rpc('source.sync', { id, ref: second })).result.sha, second);
  const named = (await rpc('deploys.create', { id, ref: 'v1' })).result;
  assert.deepEqual([named.sha, named.trigger], [sha, 'push'], 'a deploy by ref fetches, too');
  assert.equal((await rpc('deploys.create', { id, ref: 'v1' })).result.trigger, 'redeploy', 'main is there');
  assert.equal((await rpc('deploys.create', { id, ref: 'nothing' })).error.data.code, 'import_failed');
  assert.equal((await rpc('source.sync', { id, ref: second })).result.sha, second);
  const missing = (await rpc('source.sync', { id, ref: 'nothing' })).error.data;
  assert.equal(missing.code, 'import_failed');
  assert.match(missing.detail, /it has no refs\/tags\/nothing/);
  // A forced push to the Git host.
  gitIn(work, 'reset', '--quiet', '--hard', sha);
  const other = change('other');
  assert.equal((await rpc('source.sync', { id })).result.sha, other);
  await serves('by-hand', 'other');
  assert.deepEqual((await rpc('source.disconnect', { id })).result, null);
  assert.equal((await rpc('source.sync', { id })).error.data.code, 'source_not_connected');
  assert.equal((await cellar.get('by-hand')).text, 'other');
});

test('a private repository needs the token, which no other address gets', async () => {
  const { url } = hosted('private', 'the-token');
  const elsewhere = hosted('private-too', 'the-token');
  const id = await cellar.create('private');
  await rpc('source.connect', { id, url, deploy_on: 'manual' });
  assert.match((await rpc('source.sync', { id })).error.data.detail, /no public repository/);
  const { result } = await rpc('source.connect', { id, url, deploy_on: 'manual', token: 'the-token' });
  assert.equal(result.has_token, true);
  assert.ok(!JSON.stringify(result).includes('the-token'));
  assert.ok((await rpc('source.sync', { id })).result.deploy_id);
  const moved = (await rpc('source.connect', { id, url: elsewhere.url, deploy_on: 'manual' })).result;
  assert.equal(moved.has_token, false);
  assert.notEqual(moved.deploy_key, result.deploy_key);
  assert.match((await rpc('source.sync', { id })).error.data.detail, /no public repository/);
});

test('addresses that are no repository elsewhere, and names that git would take for options, are refused', async () => {
  const id = await cellar.create('refused');
  for (const url of [
    'file:///etc',
    '/etc',
    'ext::sh -c id',
    'http://localhost/x',
    'git://localhost/x',
    'https://me:secret@localhost/x',
    '--upload-pack=id',
    'ssh://-oProxyCommand=id/x',
    'ssh://git:secret@localhost/x',
    'git@-oProxyCommand=id:x',
  ])
    assert.equal((await rpc('source.connect', { id, url })).error?.data.code, 'invalid_input', url);
  for (const branch of ['--upload-pack=id', '-x', 'a..b', 'a b', 'x:y', '*', 'refs/../x', 'x.lock'])
    assert.equal(
      (await rpc('source.connect', { id, url: host.url('x'), branch })).error?.data.code,
      'invalid_input',
      branch,
    );
  const url = 'https://127.0.0.2:1/x';
  await rpc('source.connect', { id, url, deploy_on: 'manual' });
  assert.match((await rpc('source.sync', { id })).error.data.detail, /127\.0\.0\.2 is not a public address/);
});

test('the webhook of each Git host deploys; what is forged, repeated or about something else does not', async () => {
  const { url, change } = hosted('hooked');
  const id = await cellar.create('hooked');
  await rpc('source.connect', { id, url, secret: SECRET });
  const kinds: [string, (body: string) => Record<string, string>][] = [
    ['github', github],
    ['gitea', (body) => ({ 'x-gitea-event': 'push', 'x-gitea-signature': hmac(body) })],
    ['forgejo', (body) => ({ 'x-forgejo-event': 'push', 'x-forgejo-signature': hmac(body) })],
    ['gitlab', () => ({ 'x-gitlab-event': 'Push Hook', 'x-gitlab-token': SECRET })],
    ['bitbucket', (body) => ({ 'x-event-key': 'repo:push', 'x-hub-signature': `sha256=${hmac(body)}` })],
    ['standard', (body) => standard(body)],
  ];
  const second = change('second');
  for (const [name, headers] of kinds) {
    const body = push();
    // Some hosts also sign the time, so a repeated delivery has the headers of the first.
    const signed = headers(body);
    assert.deepEqual(await deliver(id, signed, body), [202, { result: 'queued' }], name);
    assert.deepEqual(await deliver(id, signed, body), [200, { result: 'repeated' }], name);
  }
  const form = `payload=${encodeURIComponent(push())}`;
  const typed = { ...github(form), 'content-type': 'application/x-www-form-urlencoded' };
  assert.equal((await deliver(id, typed, form))[0], 202);

  const body = push();
  const forged: [string, Record<string, string>][] = [
    ['no signature', {}],
    ['of another secret', github(body, 'another-secret-of-16')],
    ['of another body', github(`${body} `)],
    ['without a prefix', { 'x-hub-signature-256': hmac(body) }],
    ['no hexadecimal', { 'x-gitea-signature': 'x'.repeat(64) }],
    ['another token', { 'x-gitlab-token': `${SECRET}x` }],
    ['right, beside one that counts', { ...github(body), 'x-forgejo-signature': hmac(`${body} `) }],
    ['too old', standard(body, Math.floor(Date.now() / 1000) - 301)],
    ['too new', standard(body, Math.floor(Date.now() / 1000) + 360)],
    ['of no key', { 'x-hub-signature-256': `sha256=${hmac(body, '')}` }],
  ];
  for (const [name, headers] of forged) assert.equal((await deliver(id, headers, body))[0], 401, name);
  assert.equal((await deliver('0'.repeat(16), github(body), body))[0], 404);

  const others = [push('refs/heads/other'), push('refs/tags/v1'), push('refs/heads/main', '0'.repeat(40))];
  for (const other of others)
    assert.deepEqual(await deliver(id, github(other), other), [200, { result: 'ignored' }]);
  const ping = push();
  const pinged = { ...github(ping), 'x-github-event': 'ping' };
  assert.deepEqual(await deliver(id, pinged, ping), [200, { result: 'ignored' }]);
  for (const bad of ['', '[', '1', '{"ref":'.repeat(100)])
    assert.equal((await deliver(id, github(bad), bad))[0], 400, bad);
  const { deliveries } = (await rpc('source.get', { id })).result;
  assert.deepEqual(
    deliveries.slice(0, 4).map(({ event, result }: { event: string; result: string }) => [event, result]),
    [['ping', 'ignored'], ...others.map(() => ['push', 'ignored'])],
  );
  await fetched(id, second);
});

function standard(body: string, time = Math.floor(Date.now() / 1000)): Record<string, string> {
  const signature = createHmac('sha256', SECRET).update(`id.${time}.${body}`).digest('base64');
  return {
    'webhook-id': 'id',
    'webhook-timestamp': String(time),
    'webhook-signature': `v1,${'A'.repeat(43)}= v1,${signature}`,
    'x-gitlab-event': 'Push Hook',
  };
}

test('a thousand deliveries at once lead to few fetches', async () => {
  const { url, sha, change } = hosted('burst');
  const id = await cellar.create('burst');
  await rpc('source.connect', { id, url, secret: SECRET });
  await fetched(id, sha);
  const before = host.requests.length;
  const from = performance.now();
  const second = change('burst');
  // A busy machine may answer 503, and the delivery is sent again. If it was taken all the same, it counts as repeated.
  const taken = async (body: string) => {
    const [status, answer] = await deliver(id, github(body), body);
    if (status === 503) return false;
    assert.ok(status === 202 || isDeepStrictEqual(answer, { result: 'repeated' }), JSON.stringify(answer));
    return true;
  };
  const bodies = Array.from({ length: 1000 }, () => push('refs/heads/main', second));
  await Promise.all(bodies.map((body) => eventually(() => taken(body), 'a delivery is taken', DEPLOY_MS)));
  await fetched(id, second);
  await eventually(
    async () => (await rpc('source.get', { id })).result.next_fetch_at === null,
    'no fetch is due',
  );
  // Each fetch makes at most three requests, and fetches begin a second apart.
  const most = Math.min(900, 3 * ((performance.now() - from) / 1_000 + 5));
  assert.ok(host.requests.length - before < most, `${host.requests.length - before} requests`);
});

test('a huge delivery is refused', async () => {
  const id = await cellar.create('huge');
  await rpc('source.connect', { id, url: host.url('huge'), secret: SECRET, deploy_on: 'manual' });
  const huge = 'x'.repeat(25 * 2 ** 20 + 1);
  assert.equal((await deliver(id, github(huge), huge))[0], 413);
  const long = JSON.stringify({ ref: 'refs/heads/main', text: 'x'.repeat(24 * 2 ** 20) });
  assert.deepEqual(await deliver(id, github(long), long), [200, { result: 'ignored' }]);
});

test('a delivery is not lost when the host is killed', async () => {
  const { url, sha, change } = hosted('killed');
  const id = await cellar.create('killed');
  await rpc('source.connect', { id, url, secret: SECRET });
  await fetched(id, sha);
  const second = change('second');
  const body = push();
  assert.equal((await deliver(id, github(body), body))[0], 202);
  await cellar.stop('SIGKILL');
  await cellar.start();
  await fetched(id, second);
});

test('tags are deployed by the highest version, and a failed fetch says why and is tried again', async () => {
  const { url, work, change } = hosted('tagged');
  const id = await cellar.create('tagged');
  await rpc('source.connect', { id, url, secret: SECRET, deploy_on: 'tags' });
  const failed = async () => (await rpc('source.get', { id })).result.last_fetch?.error;
  await eventually(async () => (await failed()) !== undefined, 'the first fetch has ended', DEPLOY_MS);
  assert.match(await failed(), /it has no tags yet/);
  const commits = new Map<string, string>();
  for (const tag of ['zebra', 'v1.2', 'v1.10', 'v1.9', 'v2.0', 'v2.0-rc1']) {
    commits.set(tag, change(tag));
    gitIn(work, 'tag', tag);
  }
  const body = push('refs/tags/v2.0');
  assert.deepEqual(await deliver(id, github(body), body), [202, { result: 'queued' }]);
  await fetched(id, commits.get('v2.0')!);
});
