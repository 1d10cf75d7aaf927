// The control UI's server through the gateway: the first visit, sign-in, sessions and permissions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { AuditEntry } from '../../handlers/contract/people/audit.ts';
import { SecurityKey, totp } from '../support/e2e/authenticators.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { allPrinted, Visitor, welcomeOf } from '../support/e2e/visitor.ts';
import { Inbox, PASSWORD } from '../support/mail/inbox.ts';
import { descendants, eventually, processes } from '../support/processes.ts';

const inbox = await Inbox.start();
const cellar = new Cellar({ RUNNER_SMTP_URL: inbox.url, RUNNER_SMTP_FROM: 'cellar@example.com' });
const ADA = { name: 'Ada', email: 'ada@example.com', password: 'a long enough password' };
let ada: Visitor;

/** Returns the processes of the control UI. */
const uiProcesses = () =>
  descendants(cellar.pid).filter(({ command }) => command.some((word) => word.endsWith('/ui/ui.capnp')));

before(async () => {
  await cellar.start();
  ada = new Visitor(cellar);
});
after(async () => {
  await cellar[Symbol.asyncDispose]();
  await inbox.close();
});

test('without a visit the control UI has no process', () => {
  assert.deepEqual(uiProcesses(), []);
});

test('the first visit starts the server; every address returns the page, with a strict security policy', async () => {
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
  const helpers = () =>
    descendants(cellar.pid).filter(({ command }) => command.some((word) => word.startsWith('--service=')));
  await eventually(() => helpers().length === 0, 'what bundled it has ended');
  const again = await ada.ask('GET', '/', undefined, {
    accept: 'text/html',
    'if-none-match': page.headers.get('etag')!,
  });
  assert.equal(again.status, 304);
});

test('the address of the docs leads to their first page', async () => {
  for (const path of ['/docs', '/docs/']) {
    const { status, headers } = await ada.open('GET', path, undefined, { accept: 'text/html' });
    assert.deepEqual([status, headers.get('location')], [302, '/docs/readme'], path);
  }
  assert.match((await ada.page('/docs/readme')).text, /<body class="docs">/);
});

test('scripts and styles are compressed and cacheable for ever, and a missing file does not return the page', async () => {
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

test('a visitor is not signed in, and an API key or the runner token does not change that', async () => {
  for (const secret of [cellar.token, cellar.key]) {
    const headers = { authorization: `Bearer ${secret}` };
    assert.equal((await ada.ask('GET', '/v1/apps', undefined, headers)).status, 401);
  }
  const nobody = await ada.ask('GET', '/session');
  assert.deepEqual([nobody.status, nobody.body], [200, { account: null, mail: true, provider: null }]);
  for (const path of ['/internal/probe', '/v1/git/x/info/refs', '/v1/edge/wake', '/metrics', '/api/auth/ok'])
    assert.equal((await ada.ask('GET', path)).status, 404, path);
  assert.equal((await ada.ask('POST', '/api/auth/sign-up/email', ADA)).status, 404);
});

test('errors that strangers cause in the auth library make few log lines, each on one line', async () => {
  const stranger = new Visitor(cellar);
  const from = cellar.output.length;
  const complain = (n: number) => {
    const callbackURL = `http://evil.test/\n2026-01-01T00:00:00.000Z info  forged ${n}`;
    return stranger.ask('POST', '/api/auth/sign-in/email', {
      email: 'x@example.com',
      password: 'x',
      callbackURL,
    });
  };
  for (const n of [1, 2, 3]) assert.equal((await complain(n)).status, 403);
  // Once the host reports the end of the process, it has read all output of the process.
  process.kill(uiProcesses()[0]!.pid, 'SIGKILL');
  await cellar.waitFor(/the process of the control UI ended.*\n/, from);
  const lines = cellar.output.slice(from).split('\n');
  assert.deepEqual(
    lines.filter((line) => line.startsWith('2026-01-01')),
    [],
  );
  assert.equal(lines.filter((line) => /the control UI says.*forged/.test(line)).length, 1);
  await eventually(async () => (await stranger.page('/')).status === 200, 'another process answers');
});

test('the welcome link makes one person the admin of the first account, once', async () => {
  const token = await welcomeOf(cellar);
  const purpose = await ada.ask('POST', '/invites/look', { token });
  assert.deepEqual([purpose.body.kind, purpose.body.role], ['welcome', 'admin']);
  assert.equal(
    (await ada.ask('POST', '/welcome', { ...ADA, token: `${token}x` })).body.code,
    'invite_not_found',
  );
  assert.equal((await ada.ask('POST', '/welcome', { ...ADA, token, password: 'short' })).status, 400);
  // Of two concurrent requests one is refused, and the other's password is set.
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

test('the session cookie is valid only for this origin, and hidden from scripts', async () => {
  const visitor = new Visitor(cellar);
  const { headers } = await visitor.ask('POST', '/api/auth/sign-in/email', ADA);
  const cookie = headers.getSetCookie().find((line) => line.startsWith('cellar.session_token='))!;
  assert.match(cookie, /; Path=\/; HttpOnly; SameSite=Strict$/);
  assert.doesNotMatch(cookie, /Domain/);
});

test('calls, REST and streams go to the API as the signed-in account', async () => {
  const made = await ada.ask('POST', '/v1/apps', { slug: 'by-ada' });
  assert.equal(made.status, 201);
  const account = await ada.account();
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

test('requests from another origin are refused, and changes without an origin', async () => {
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
    assert.deepEqual([status, body.error.data.code], [403, 'forbidden'], JSON.stringify(headers));
  }
  const silent = { 'sec-fetch-site': 'none', origin: '' };
  const refused = await from(silent);
  assert.equal(refused.status, 403);
  assert.match(
    refused.body.error.data.detail,
    /the API at http:/,
    'the refusal names the address of the API for programs',
  );
  assert.equal((await ada.ask('GET', '/v1/apps', undefined, { 'sec-fetch-site': 'same-site' })).status, 403);
  assert.equal((await ada.ask('POST', '/api/auth/sign-out', {}, { origin: 'http://evil.test' })).status, 403);
  assert.ok(await ada.account());
});

test('no answer of the API can be run or embedded by a browser, here and at its own address', async () => {
  const app = await ada.rpc('apps.get_by_slug', { slug: 'by-ada' });
  const destinations = {
    script: 403,
    style: 403,
    worker: 403,
    sharedworker: 403,
    serviceworker: 403,
    audioworklet: 403,
    frame: 403,
    iframe: 403,
    object: 403,
    embed: 403,
    manifest: 403,
    empty: 200,
    document: 200,
    image: 200,
  };
  for (const [destination, status] of Object.entries(destinations)) {
    const headers = { 'sec-fetch-dest': destination };
    for (const path of [`/v1/apps/${app.id}`, '/v1/apps']) {
      assert.equal((await ada.ask('GET', path, undefined, headers)).status, status, destination);
      const authorization = `Bearer ${cellar.token}`;
      const direct = await fetch(cellar.api + path, { headers: { ...headers, authorization } });
      assert.equal(direct.status, status, destination);
      const { code } = (await direct.json()) as { code?: string };
      assert.equal(code, status === 403 ? 'forbidden' : undefined);
    }
    const wrangler = await fetch(`${cellar.api}/client/v4/accounts`, {
      headers: { ...headers, authorization: `Bearer ${cellar.token}` },
    });
    assert.equal(wrangler.status, status, destination);
  }
  const viewer = await fetch(`${cellar.api}/docs/start.js`, { headers: { 'sec-fetch-dest': 'script' } });
  assert.equal(viewer.status, 200);
  const asked = { 'sec-fetch-dest': 'script', 'x-forwarded-host': `localhost:${cellar.edgePort}` };
  const wake = await fetch(`${cellar.api}/v1/edge/wake`, { headers: asked });
  assert.equal(wake.status, 200, 'proxies pass on what browsers say of requests to apps');
});

/** Makes Ada invite a person, who accepts and is signed in. */
async function newcomer(name: string, params: object = {}): Promise<{ visitor: Visitor; id: string }> {
  const { url } = await ada.rpc('invites.create', params);
  assert.ok(url.startsWith(`${ada.origin}/invite?token=`));
  const visitor = new Visitor(cellar);
  const token = new URL(url).searchParams.get('token');
  const person = { token, name, email: `${name}@example.com`, password: `the password of ${name}` };
  const { status, body } = await visitor.ask('POST', '/invites/accept', person);
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal((await new Visitor(cellar).ask('POST', '/invites/accept', person)).status, 404);
  return { visitor, id: body.account.id };
}

test('an invite for one app gives access to that app, and deleting the account ends the session', async () => {
  const app = await ada.rpc('apps.get_by_slug', { slug: 'by-ada' });
  const { visitor, id } = await newcomer('bob', { app: { id: app.id, role: 'view' } });
  assert.equal((await visitor.account()).role, 'member');
  assert.equal((await visitor.rpc('apps.list', {})).items.length, 1);
  assert.equal(await visitor.rpc('env.list', { id: app.id }), 'forbidden');
  assert.equal(await visitor.rpc('accounts.list', {}), 'forbidden');
  assert.equal(await visitor.rpc('invites.create', {}), 'forbidden');
  await ada.rpc('accounts.delete', { id });
  assert.equal(await visitor.rpc('apps.list', {}), 'unauthorized');
  assert.equal(await visitor.account(), null);
  assert.equal(await visitor.signIn('bob@example.com', 'the password of bob'), 401);
});

test('an invite is sent by e-mail; if that fails, the inviter sees the error and the link', async () => {
  const made = await ada.rpc('invites.create', { email: 'mia@example.com', role: 'admin' });
  assert.deepEqual(made.mail, { to: 'mia@example.com', problem: null });
  assert.deepEqual(inbox.linksTo('mia@example.com'), [made.url]);
  const { text } = inbox.received.at(-1)!;
  assert.match(text, /^ada@example\.com invites you to run the apps of localhost:\d+\./m);
  assert.match(text, /^Subject: You are invited to localhost:\d+$/m);

  const refused = await ada.rpc('invites.create', { email: 'nobody@example.com' });
  assert.match(refused.mail.problem, /there is no such mailbox/);
  const token = new URL(refused.url).searchParams.get('token');
  assert.equal((await new Visitor(cellar).ask('POST', '/invites/look', { token })).status, 200);
  assert.equal((await ada.rpc('invites.create', {})).mail, null);
});

test('a reset link is sent only to the account’s address, and the answer does not reveal whether it exists', async () => {
  const { visitor, id } = await newcomer('nora');
  const enabled = await visitor.ask('POST', '/api/auth/two-factor/enable', {
    password: 'the password of nora',
  });
  const factor = enabled.body.totpURI;
  const verified = await visitor.ask('POST', '/api/auth/two-factor/verify-totp', { code: totp(factor) });
  assert.equal(verified.status, 200);

  const stranger = new Visitor(cellar);
  const forgot = (email: string) => stranger.ask('POST', '/forgot', { email });
  const answers = [
    await forgot('who@example.com'),
    await forgot('Nora@example.com'),
    await forgot('nora@example.com'),
  ];
  for (const { status, text } of answers) assert.deepEqual([status, text], [200, '{}']);
  const links = () => inbox.linksTo('nora@example.com');
  await eventually(() => links().length === 2, 'two e-mails have come');
  assert.deepEqual(inbox.linksTo('who@example.com'), []);
  assert.ok(
    (await ada.rpc('invites.list', { limit: 200 })).items.every(
      (each: { account: string }) => each.account !== id,
    ),
  );
  // At most three e-mails an hour: Nora's further ones are dropped, and Ada's arrives after them.
  for (let i = 0; i < 3; i++) assert.equal((await forgot('nora@example.com')).status, 200);
  await forgot('ada@example.com');
  await eventually(() => inbox.linksTo('ada@example.com').length === 1, 'the e-mail to Ada has come');
  assert.equal(links().length, 3);
  // Requests for one address are rate limited, whether it has an account or not.
  await eventually(async () => (await forgot('nora@example.com')).status === 429, 'one more has to wait');

  const [token, other] = links().map((link) => new URL(link).searchParams.get('token'));
  const again = new Visitor(cellar);
  const password = 'a password that Nora keeps';
  const used = await again.ask('POST', '/invites/accept', {
    token,
    name: 'x',
    email: 'x@example.com',
    password,
  });
  assert.deepEqual(used.body.account, { id, name: 'nora', email: 'nora@example.com', role: 'member' });
  assert.equal(await visitor.account(), null);
  // An e-mail does not replace the second factor.
  assert.equal(await again.account(), null);
  const code = await again.ask('POST', '/api/auth/two-factor/verify-totp', { code: totp(factor) });
  assert.equal(code.status, 200);
  assert.equal((await again.account()).id, id);
  assert.equal((await again.ask('POST', '/invites/look', { token: other })).body.code, 'invite_not_found');
});

test('signing out makes the old cookie invalid', async () => {
  const { visitor } = await newcomer('carol');
  const kept = new Map(visitor.cookies);
  assert.equal((await visitor.ask('POST', '/api/auth/sign-out', {})).status, 200);
  assert.equal(visitor.cookies.has('cellar.session_token'), false);
  for (const [name, value] of kept) visitor.cookies.set(name, value);
  assert.equal(await visitor.account(), null);
  assert.equal(await visitor.rpc('apps.list', {}), 'unauthorized');
});

test('sessions are listed and can be ended; a changed password ends all others', async () => {
  const { visitor } = await newcomer('dora');
  const elsewhere = new Visitor(cellar);
  assert.equal(await elsewhere.signIn('dora@example.com', 'the password of dora'), 200);
  const sessions = (await visitor.ask('GET', '/api/auth/list-sessions')).body;
  assert.equal(sessions.length, 2);
  const own = visitor.cookies.get('cellar.session_token')!;
  const other = sessions.find(({ token }: { token: string }) => !own.startsWith(token)).token;
  assert.equal((await visitor.ask('POST', '/api/auth/revoke-session', { token: other })).status, 200);
  assert.equal(await elsewhere.account(), null);

  assert.equal(await elsewhere.signIn('dora@example.com', 'the password of dora'), 200);
  const change = {
    currentPassword: 'the password of dora',
    newPassword: 'another password of dora',
    revokeOtherSessions: true,
  };
  assert.equal((await visitor.ask('POST', '/api/auth/change-password', change)).status, 200);
  assert.equal(await elsewhere.account(), null);
  assert.ok(await visitor.account());
  assert.equal(await elsewhere.signIn('dora@example.com', 'the password of dora'), 401);
  assert.equal(await elsewhere.signIn('dora@example.com', 'another password of dora'), 200);
});

test('a sign-in asks for the second factor; a recovery link removes it and ends sessions', async () => {
  const { visitor, id } = await newcomer('erin');
  const password = 'the password of erin';
  const { body } = await visitor.ask('POST', '/api/auth/two-factor/enable', { password });
  const code = () => totp(body.totpURI);
  assert.equal((await visitor.ask('POST', '/api/auth/two-factor/verify-totp', { code: code() })).status, 200);

  const elsewhere = new Visitor(cellar);
  const first = await elsewhere.ask('POST', '/api/auth/sign-in/email', {
    email: 'erin@example.com',
    password,
  });
  assert.equal(first.body.twoFactorRedirect, true);
  assert.equal(await elsewhere.account(), null);
  const wrong = String((Number(code()) + 1) % 1_000_000).padStart(6, '0');
  assert.equal(
    (await elsewhere.ask('POST', '/api/auth/two-factor/verify-totp', { code: wrong })).status,
    401,
  );
  const trusted = { code: code(), trustDevice: true };
  assert.equal((await elsewhere.ask('POST', '/api/auth/two-factor/verify-totp', trusted)).status, 200);
  assert.ok(await elsewhere.account());
  // A code cannot be used twice.
  const thief = new Visitor(cellar);
  await thief.ask('POST', '/api/auth/sign-in/email', { email: 'erin@example.com', password });
  const copied = await thief.ask('POST', '/api/auth/two-factor/verify-totp', trusted);
  assert.deepEqual(
    [copied.status, copied.body.message],
    [401, 'This code was used before. Wait for the next code.'],
  );
  assert.equal((await thief.ask('POST', '/api/auth/two-factor/verify-totp')).status, 400);
  assert.equal(await thief.account(), null);
  const backup = { code: 'not a code' };
  assert.equal((await thief.ask('POST', '/api/auth/two-factor/verify-backup-code', backup)).status, 401);
  assert.equal(await thief.signIn('Erin@example.com', 'not the password of erin'), 401);
  const refused = () => ada.rpc('audit.list', { account: id, operation: 'sign_in', outcome: 'refused' });
  await eventually(async () => (await refused()).items.length === 4, 'four refusals are in the audit log');
  const { items } = await refused();
  assert.deepEqual(
    items.map(({ details, address, outcome }: AuditEntry) => [details.by, address, outcome]),
    [
      'sign-in/email',
      'two-factor/verify-backup-code',
      'two-factor/verify-totp',
      'two-factor/verify-totp',
    ].map((by) => [by, '127.0.0.1', 'unauthorized']),
  );

  const { url } = await ada.rpc('invites.create', { account: id });
  const token = new URL(url).searchParams.get('token');
  const again = new Visitor(cellar);
  const used = { token, name: 'x', email: 'x@example.com', password: 'a new password of erin' };
  const { account } = (await again.ask('POST', '/invites/accept', used)).body;
  assert.deepEqual([account.id, account.email], [id, 'erin@example.com']);
  assert.ok(await again.account());
  assert.equal(await elsewhere.account(), null);
  assert.equal(await visitor.account(), null);

  // A browser that was trusted before must enter the new factor.
  const { password: renewed } = used;
  const anew = (await again.ask('POST', '/api/auth/two-factor/enable', { password: renewed })).body;
  const verified = { code: totp(anew.totpURI) };
  assert.equal((await again.ask('POST', '/api/auth/two-factor/verify-totp', verified)).status, 200);
  const back = { email: 'erin@example.com', password: renewed };
  assert.equal((await elsewhere.ask('POST', '/api/auth/sign-in/email', back)).body.twoFactorRedirect, true);
});

test('a passkey signs in only at this origin', async () => {
  const { visitor, id } = await newcomer('fred');
  const key = new SecurityKey();
  const path = '/api/auth/passkey';
  const made = (await visitor.ask('GET', `${path}/generate-register-options`)).body;
  assert.equal(made.rp.id, 'localhost');
  const registered = await visitor.ask('POST', `${path}/verify-registration`, {
    response: key.create(made, visitor.origin),
    name: 'a key',
  });
  assert.equal(registered.status, 200, registered.text);
  assert.equal((await visitor.ask('GET', `${path}/list-user-passkeys`)).body[0].name, 'a key');

  const signIn = async (origin: string) => {
    const elsewhere = new Visitor(cellar);
    const asked = (await elsewhere.ask('GET', `${path}/generate-authenticate-options`)).body;
    const body = { response: key.get(asked, origin) };
    const { status } = await elsewhere.ask('POST', `${path}/verify-authentication`, body);
    return { status, account: await elsewhere.account() };
  };
  // An app on the same site can request our passkey, but its origin differs.
  const foreign = await signIn(`http://by-ada.localhost:${cellar.edgePort}`);
  assert.notEqual(foreign.status, 200);
  assert.equal(foreign.account, null);
  const { status, account } = await signIn(visitor.origin);
  assert.equal(status, 200);
  assert.equal(account.id, id);
});

test('cookies that an app sets for the parent domain do not sign a visitor in', async () => {
  const { visitor } = await newcomer('gina');
  const own = visitor.cookies.get('cellar.session_token')!;
  const send = (cookie: string) => visitor.account({ cookie });
  assert.ok(await send(`cellar.session_token=${own}`));
  // Of two cookies with the same name, the server cannot know its own. The other may be a session of the app's owner.
  for (const pair of [`cellar.session_token=x; cellar.session_token=${own}`, `cellar.session_token=${own}x`])
    assert.equal(await send(pair), null);
  assert.ok(await send(`other=1; cellar.theme=x; cellar.session_token=${own}`));
});

test('the next visit restarts a killed server, and sessions stay valid', async () => {
  const { pid } = uiProcesses()[0]!;
  process.kill(pid, 'SIGKILL');
  const isBack = async () =>
    (await ada.ask('GET', '/session')).status === 200 && uiProcesses()[0]?.pid !== pid;
  await eventually(isBack, 'a new process answers');
});

test('a killed host leaves no process of the control UI; after its start sessions stay valid and no link is printed', async () => {
  const { pid } = uiProcesses()[0]!;
  const from = cellar.output.length;
  await cellar.stop('SIGKILL');
  await eventually(() => processes().every((each) => each.pid !== pid), 'the process has ended');
  await cellar.start();
  assert.ok(await ada.account());
  await allPrinted(cellar, from);
  assert.doesNotMatch(cellar.output.slice(from), /welcome/);
  assert.ok(!cellar.output.includes(PASSWORD));
  assert.doesNotMatch(cellar.output, /invite\?token|@example\.com/);
  assert.doesNotMatch(cellar.output.replaceAll(/.*welcome\?token.*/g, ''), new RegExp(cellar.token));
});
