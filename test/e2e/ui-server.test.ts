// The control UI's server, through the gateway: the first visit, who is signed in, and what each may do.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { descendants } from '../support/e2e/processes.ts';
import { Visitor, welcomeOf } from '../support/e2e/visitor.ts';

const cellar = new Cellar();
const ADA = { name: 'Ada', email: 'ada@example.com', password: 'a long enough password' };
let ada: Visitor;

/** The process of the control UI. */
const uiProcesses = () =>
  descendants(cellar.pid).filter(({ command }) => command.some((word) => word.endsWith('/ui/ui.capnp')));

before(async () => {
  await cellar.start();
  ada = new Visitor(cellar);
});
after(() => cellar[Symbol.asyncDispose]());

test('nobody looks: there is no process', () => {
  assert.deepEqual(uiProcesses(), []);
});

test('the first visit starts it, and gets the page with a strict policy; every address is the page', async () => {
  const page = await ada.page('/');
  assert.equal(page.status, 200);
  assert.match(page.headers.get('content-type')!, /^text\/html/);
  const policy = page.headers.get('content-security-policy')!;
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
  assert.match(policy, /frame-ancestors 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  assert.equal(page.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(page.headers.get('referrer-policy'), 'no-referrer');
  assert.equal((await ada.page('/apps/shop/logs')).text, page.text);
  assert.equal(uiProcesses().length, 1);
  const again = await ada.ask('GET', '/', undefined, {
    accept: 'text/html',
    'if-none-match': page.headers.get('etag')!,
  });
  assert.equal(again.status, 304);
});

test('scripts and styles are packed, kept for ever, and no page for whoever asks for another', async () => {
  const { text } = await ada.page('/');
  const [, script] = /<script type="module" src="([^"]+)"/.exec(text)!;
  const packed = await ada.open('GET', script!, undefined, { 'accept-encoding': 'gzip, br' });
  assert.equal(packed.status, 200);
  assert.equal(packed.headers.get('content-encoding'), 'br');
  assert.match(packed.headers.get('cache-control')!, /immutable/);
  assert.match(packed.headers.get('content-type')!, /javascript/);
  const plain = await ada.ask('GET', script!, undefined, { 'accept-encoding': 'identity' });
  assert.equal(await packed.text(), plain.text);
  assert.equal(plain.headers.get('content-encoding'), null);
  assert.equal((await ada.ask('GET', '/assets/nothing.js')).status, 404);
});

test('nobody is signed in, and an API key or the runner token is nothing here', async () => {
  for (const secret of [cellar.token, cellar.key]) {
    const headers = { authorization: `Bearer ${secret}` };
    assert.equal((await ada.ask('GET', '/v1/apps', undefined, headers)).status, 401);
  }
  assert.equal((await ada.ask('GET', '/session')).status, 401);
  for (const path of ['/internal/probe', '/v1/git/x/info/refs', '/v1/edge/wake', '/metrics', '/api/auth/ok'])
    assert.equal((await ada.ask('GET', path)).status, 404, path);
  assert.equal((await ada.ask('POST', '/api/auth/sign-up/email', ADA)).status, 404);
});

test('the link of the first start makes the first person the admin of the first account, once', async () => {
  const token = welcomeOf(cellar);
  const purpose = await ada.ask('POST', '/invites/look', { token });
  assert.deepEqual([purpose.body.kind, purpose.body.role], ['welcome', 'admin']);
  assert.equal(
    (await ada.ask('POST', '/welcome', { ...ADA, token: `${token}x` })).body.code,
    'invite_not_found',
  );
  assert.equal((await ada.ask('POST', '/welcome', { ...ADA, token, password: 'short' })).status, 400);
  // Two at once: one of them is refused, and the other's password counts.
  const eve = new Visitor(cellar);
  const [first, second] = await Promise.all([
    ada.ask('POST', '/welcome', { ...ADA, token }),
    eve.ask('POST', '/welcome', { ...ADA, password: 'another password', token }),
  ]);
  assert.deepEqual([first.status, second.status].sort(), [200, 404]);
  const won = first.status === 200 ? ADA.password : 'another password';
  if (won !== ADA.password) {
    ada.cookies.clear();
    for (const [name, value] of eve.cookies) ada.cookies.set(name, value);
    ADA.password = won;
  }
  const { status, body } = await ada.ask('GET', '/session');
  assert.equal(status, 200);
  assert.deepEqual(
    { ...body.account, id: '' },
    { id: '', name: 'Ada', email: 'ada@example.com', role: 'admin' },
  );
  assert.equal(body.urls.api, cellar.api);
  assert.equal((await ada.ask('POST', '/welcome', { ...ADA, token })).body.code, 'invite_not_found');
  const { items } = await ada.rpc('accounts.list', {});
  assert.deepEqual([items.length, items[0].role, items[0].id], [1, 'owner', body.account.id]);
});

test('the cookie is for this origin alone, and for no script', async () => {
  const visitor = new Visitor(cellar);
  const { headers } = await visitor.ask('POST', '/api/auth/sign-in/email', ADA);
  const cookie = headers.getSetCookie().find((line) => line.startsWith('cellar.session_token='))!;
  assert.match(cookie, /; Path=\/; HttpOnly; SameSite=Strict$/);
  assert.doesNotMatch(cookie, /Domain/);
});

test('calls, REST and streams go to the API as the signed-in account', async () => {
  const made = await ada.ask('POST', '/v1/apps', { slug: 'by-ada' });
  assert.equal(made.status, 201);
  const { account } = (await ada.ask('GET', '/session')).body;
  assert.equal(made.body.owner, account.id);
  assert.equal((await ada.rpc('apps.get_by_slug', { slug: 'by-ada' })).id, made.body.id);
  assert.match(made.headers.get('content-security-policy')!, /sandbox/);
  const ending = new AbortController();
  const path = `/v1/apps/${made.body.id}/deploys/stream`;
  const stream = await ada.open('GET', path, undefined, { accept: 'text/event-stream' }, ending.signal);
  assert.match(stream.headers.get('content-type')!, /^text\/event-stream/);
  const { value } = await stream.body!.getReader().read();
  assert.ok(value!.length > 0);
  ending.abort();
});

test('what another origin sends is refused, and a change of which nobody says where it comes from', async () => {
  const call = { jsonrpc: '2.0', id: 1, method: 'apps.list', params: {} };
  const from = (headers: Record<string, string>) => ada.ask('POST', '/rpc', call, headers);
  assert.equal((await from({})).status, 200);
  const foreign = [
    { origin: 'http://by-ada.localhost' },
    { origin: 'null' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'none', origin: `${ada.origin}0` },
  ];
  for (const headers of foreign) {
    const { status, body } = await from(headers);
    assert.deepEqual([status, body.code], [403, 'forbidden'], JSON.stringify(headers));
  }
  const silent = { 'sec-fetch-site': 'none', origin: '' };
  assert.equal((await from(silent)).status, 403);
  assert.equal((await ada.ask('GET', '/v1/apps', undefined, { 'sec-fetch-site': 'same-site' })).status, 403);
  assert.equal((await ada.ask('POST', '/api/auth/sign-out', {}, { origin: 'http://evil.test' })).status, 403);
  assert.equal((await ada.ask('GET', '/session')).status, 200);
});
