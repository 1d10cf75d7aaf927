// The control UI's server: rate limits, sessions and streams. A refused request reaches no database and no API.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { compressed } from '../../handlers/ui/compressed.ts';
import { Attempts, clientOf, Limiter } from '../../handlers/ui/limits.ts';
import { ownCookies } from '../../handlers/ui/origin.ts';
import { totp } from '../support/e2e/authenticators.ts';
import { UiInProcess } from '../support/handlers/ui-in-process.ts';
import { eventually } from '../support/processes.ts';

const HOUR_MS = 3_600_000;
const SIGN_IN = '/api/auth/sign-in/email';
const credentials = (name: string) => ({ email: `${name}@example.com`, password: 'a wrong password' });
/** Ada's account as the API returns it. */
const ADA = { id: '0123456789abcdef', name: 'Ada', email: 'ada@example.com', role: 'admin' };
/** What Ada enters at the link that the first start prints. */
const WELCOME = { token: 'x', name: 'Ada', email: 'ada@example.com', password: 'a long enough password' };

const PROVIDER = { OIDC_URL: 'https://id.example.com', OIDC_SCOPES: 'openid', OIDC_NAME: 'Example' };
/** Signs Ada in by the link of the first start. @returns her cookie */
async function signIn(ui: UiInProcess): Promise<string> {
  ui.api = () => Response.json(ADA);
  return cookieOf(await ui.post('/welcome', WELCOME));
}
const cookieOf = (answer: Response) => answer.headers.getSetCookie()[0]!.split(';')[0]!;
/** Stores that the provider knows Ada. */
function knowAda(ui: UiInProcess): void {
  ui.database.all({
    sql: `INSERT INTO account (id, accountId, providerId, userId, createdAt, updatedAt)
      VALUES ('a', 'ada at the provider', 'oidc', ?, '', '')`,
    values: [ADA.id],
  });
}
const CHANGE = {
  currentPassword: WELCOME.password,
  newPassword: 'another long password',
  revokeOtherSessions: true,
};

function refused(response: Response): void {
  assert.equal(response.status, 429);
  assert.match(response.headers.get('retry-after')!, /^[1-9]\d?$/);
}

test('over SERVICE_RATE_LIMIT_RPM sign-in is refused before the library and the database', async (t) => {
  const ui = await UiInProcess.start(t, { SERVICE_RATE_LIMIT_RPM: '2' });
  // The library is created after the database has answered. Until then, every request that is not refused queries it.
  ui.broken = true;
  for (const trips of [1, 2]) {
    assert.equal((await ui.post(SIGN_IN, credentials('ada'))).status, 500);
    assert.equal(ui.trips, trips);
  }
  refused(await ui.post(SIGN_IN, credentials('ada')));
  refused(await ui.post('/api/auth/two-factor/verify-totp', { code: '123456' }));
  assert.equal(ui.trips, 2);
  assert.equal((await ui.post(SIGN_IN, credentials('ada'), '192.0.2.2')).status, 500);
});

test('a first request that is cut off does not stop the others', async (t) => {
  const ui = await UiInProcess.start(t);
  ui.stuck = true;
  void ui.post(SIGN_IN, credentials('ada'));
  while (ui.trips === 0) await setImmediate();
  ui.stuck = false;
  assert.equal((await ui.post(SIGN_IN, credentials('ada'))).status, 401);
});

test('links are counted separately, and refused before the API is called', async (t) => {
  const ui = await UiInProcess.start(t, { SERVICE_RATE_LIMIT_RPM: '2' });
  const person = { token: 'x', name: 'Eve', email: 'eve@example.com', password: 'a long enough password' };
  await ui.post(SIGN_IN, credentials('ada'));
  await ui.post(SIGN_IN, credentials('ada'));
  const { trips, asked } = ui;
  assert.equal((await ui.post('/invites/look', { token: 'x' })).status, 404);
  assert.equal((await ui.post('/invites/accept', person)).status, 404);
  assert.equal(ui.asked, asked + 2);
  refused(await ui.post('/welcome', person));
  refused(await ui.post('/invites/look', { token: 'x' }));
  assert.deepEqual([ui.asked, ui.trips], [asked + 2, trips]);
});

test('without a mail server there is no link for a forgotten password', async (t) => {
  const ui = await UiInProcess.start(t);
  assert.equal((await ui.post('/forgot', { email: 'ada@example.com' })).status, 404);
  assert.equal(ui.asked, 0);
});

test('over SERVICE_AUTH_RATE_LIMIT the library refuses an address on every route, before the database', async (t) => {
  const ui = await UiInProcess.start(t, { SERVICE_AUTH_RATE_LIMIT: '3' });
  assert.equal((await ui.post(SIGN_IN, credentials('ada'))).status, 401);
  assert.equal((await ui.post(SIGN_IN, credentials('bob'))).status, 401);
  assert.equal((await ui.post('/api/auth/sign-out', {})).status, 200);
  const { trips } = ui;
  refused(await ui.post(SIGN_IN, credentials('carol')));
  refused(await ui.post('/api/auth/sign-out', {}));
  assert.equal(ui.trips, trips);
  assert.equal((await ui.post(SIGN_IN, credentials('carol'), '192.0.2.2')).status, 401);
});

test('wrong passwords delay the next attempt on that account, from any address', async (t) => {
  const ui = await UiInProcess.start(t);
  // The delay must not pass while a busy machine checks the passwords.
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  for (let n = 0; n < 5; n++)
    assert.equal((await ui.post(SIGN_IN, credentials('ada'), `192.0.2.${n}`)).status, 401);
  const { trips } = ui;
  refused(await ui.post(SIGN_IN, credentials('ADA'), '192.0.2.9'));
  assert.equal(ui.trips, trips);
  assert.equal((await ui.post(SIGN_IN, credentials('bob'))).status, 401);
});

test('a stream ends within a minute after the session of its reader, or the account', async (t) => {
  const ui = await UiInProcess.start(t);
  let isThere = true;
  ui.api = ({ pathname }) => {
    if (pathname.startsWith('/v1/'))
      return new Response(new ReadableStream(), { headers: { 'content-type': 'text/event-stream' } });
    return isThere ? Response.json(ADA) : Response.json({ code: 'account_not_found' }, { status: 404 });
  };
  const used = await ui.post('/welcome', WELCOME);
  const cookie = used.headers.getSetCookie()[0]!.split(';')[0]!;
  t.mock.timers.enable({ apis: ['setInterval'] });
  /** Opens a stream, and asserts that it is still open after a minute. */
  const open = async () => {
    const { body } = await ui.get('/v1/apps/x/logs/stream', cookie);
    let isOpen = true;
    const read = body!
      .getReader()
      .read()
      .finally(() => {
        isOpen = false;
      });
    t.mock.timers.tick(60_000);
    const before = ui.asked;
    await eventually(() => ui.asked > before, 'the account was looked at');
    assert.ok(isOpen);
    return { read };
  };
  const first = (await open()).read;
  isThere = false;
  t.mock.timers.tick(60_000);
  assert.equal((await first).done, true);
  isThere = true;
  const second = (await open()).read;
  assert.equal((await ui.post('/api/auth/sign-out', {}, '192.0.2.1', cookie)).status, 200);
  t.mock.timers.tick(60_000);
  assert.equal((await second).done, true);
});

test('a stream ends after ten minutes, so that a new one checks the rights again', async (t) => {
  const ui = await UiInProcess.start(t);
  ui.api = ({ pathname }) =>
    pathname.startsWith('/v1/')
      ? new Response(new ReadableStream(), { headers: { 'content-type': 'text/event-stream' } })
      : Response.json(ADA);
  const used = await ui.post('/welcome', WELCOME);
  const cookie = used.headers.getSetCookie()[0]!.split(';')[0]!;
  t.mock.timers.enable({ apis: ['setInterval'] });
  const { body } = await ui.get('/v1/apps/x/logs/stream', cookie);
  let isOpen = true;
  const read = body!
    .getReader()
    .read()
    .finally(() => {
      isOpen = false;
    });
  for (let minute = 1; minute < 10; minute++) {
    const before = ui.asked;
    t.mock.timers.tick(60_000);
    await eventually(() => ui.asked > before, 'the account was looked at');
  }
  assert.ok(isOpen);
  t.mock.timers.tick(60_000);
  assert.equal((await read).done, true);
});

test('the session of a person whom the provider knows ends after a day, and no other', async (t) => {
  const ui = await UiInProcess.start(t, PROVIDER);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const cookie = await signIn(ui);
  const account = async () => {
    const answer = (await (await ui.get('/session', cookie)).json()) as { account: { id: string } | null };
    return answer.account?.id ?? null;
  };
  t.mock.timers.tick(23 * HOUR_MS);
  assert.equal(await account(), ADA.id);
  t.mock.timers.tick(2 * HOUR_MS);
  assert.equal(await account(), ADA.id);
  knowAda(ui);
  assert.equal(await account(), null);
  assert.deepEqual(ui.database.all({ sql: 'SELECT id FROM session', values: [] }), []);
});

test('a session that must end after a day cannot be renewed through a route of sign-in', async (t) => {
  const ui = await UiInProcess.start(t, PROVIDER);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const cookie = await signIn(ui);
  knowAda(ui);
  t.mock.timers.tick(25 * HOUR_MS);
  const changed = await ui.post('/api/auth/change-password', CHANGE, '192.0.2.1', cookie);
  assert.equal(changed.status, 401);
  assert.deepEqual(ui.database.all({ sql: 'SELECT id FROM session', values: [] }), []);
});

test('where the provider is required, every session ends after a day, and nothing renews it', async (t) => {
  const ui = await UiInProcess.start(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const cookie = await signIn(ui);
  const strict = await UiInProcess.start(t, { ...PROVIDER, OIDC_REQUIRED: 'on' }, ui.database);
  strict.api = ui.api;
  for (const [path, body] of [
    ['change-password', CHANGE],
    ['two-factor/enable', { password: WELCOME.password }],
    ['two-factor/disable', { password: WELCOME.password }],
    ['two-factor/verify-totp', { code: '123456' }],
    ['passkey/verify-registration', { response: {} }],
  ] as const)
    assert.equal((await strict.post(`/api/auth/${path}`, body, '192.0.2.1', cookie)).status, 403, path);
  assert.equal((await strict.get('/api/auth/passkey/generate-register-options', cookie)).status, 403);
  assert.equal((await strict.get('/api/auth/passkey/list-user-passkeys', cookie)).status, 200);
  const account = async () =>
    ((await (await strict.get('/session', cookie)).json()) as { account: object | null }).account;
  t.mock.timers.tick(23 * HOUR_MS);
  assert.notEqual(await account(), null);
  t.mock.timers.tick(2 * HOUR_MS);
  assert.equal(await account(), null);
  assert.deepEqual(ui.database.all({ sql: 'SELECT id FROM session', values: [] }), []);
});

test('people list and end their sessions at any age, and sign in again to add a passkey', async (t) => {
  const ui = await UiInProcess.start(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const cookie = await signIn(ui);
  const own = ui.database.all({ sql: 'SELECT token FROM session', values: [] }) as { token: string }[];
  const { email, password } = WELCOME;
  const elsewhere = cookieOf(await ui.post(SIGN_IN, { email, password }));
  t.mock.timers.tick(25 * HOUR_MS);
  const sessions = async () => {
    const answer = await ui.get('/api/auth/list-sessions', cookie);
    assert.equal(answer.status, 200);
    return (await answer.json()) as { token: string; createdAt: string }[];
  };
  const listed = await sessions();
  assert.equal(listed.length, 2);
  const { token } = listed.find((each) => each.token !== own[0]!.token)!;
  const ended = await ui.post('/api/auth/revoke-session', { token }, '192.0.2.1', cookie);
  assert.equal(ended.status, 200);
  assert.deepEqual(
    (await sessions()).map((each) => each.token),
    [own[0]!.token],
  );
  assert.equal((await ui.get('/api/auth/list-sessions', elsewhere)).status, 401);
  const refused = await ui.get('/api/auth/passkey/generate-register-options', cookie);
  const problem = (await refused.json()) as { code: string; detail: string };
  assert.deepEqual([refused.status, problem.code], [403, 'forbidden']);
  assert.match(problem.detail, /sign out and sign in again/i);
});

test('a code of the second factor works once, also at another host', async (t) => {
  const ui = await UiInProcess.start(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const { email, password } = WELCOME;
  const VERIFY = '/api/auth/two-factor/verify-totp';
  const session = await signIn(ui);
  const enabled = await ui.post('/api/auth/two-factor/enable', { password }, '192.0.2.1', session);
  const { totpURI } = (await enabled.json()) as { totpURI: string };
  assert.equal((await ui.post(VERIFY, { code: totp(totpURI) }, '192.0.2.1', session)).status, 200);
  const other = await UiInProcess.start(t, {}, ui.database);
  other.api = ui.api;
  /** Enters the password, then a code. */
  const verify = async (host: UiInProcess, code: string) => {
    const cookies = (await host.post(SIGN_IN, { email, password })).headers.getSetCookie();
    const challenge = cookies
      .map((cookie) => cookie.split(';')[0]!)
      .find((cookie) => cookie.includes('two_factor='));
    return (await host.post(VERIFY, { code }, '192.0.2.1', challenge!)).status;
  };
  // The code of another time is refused, and not stored as used: it works later.
  t.mock.timers.tick(10 * 60_000);
  const later = totp(totpURI, Date.now() + 10 * 60_000);
  assert.equal(await verify(ui, later), 401);
  const code = totp(totpURI);
  const answers = await Promise.all([verify(ui, code), verify(other, code)]);
  assert.deepEqual(answers.sort(), [200, 401]);
  for (const host of [ui, other]) assert.equal(await verify(host, code), 401);
  t.mock.timers.tick(10 * 60_000);
  assert.equal(await verify(other, later), 200);
});

test('a body that no route of sign-in needs is refused before the library reads it', async (t) => {
  const ui = await UiInProcess.start(t);
  const { status } = await ui.post('/api/auth/passkey/verify-authentication', {
    response: 'x'.repeat(100_000),
  });
  assert.equal(status, 413);
});

test('a user is removed when the account does not exist, but not when the API refuses a token', async (t) => {
  const ui = await UiInProcess.start(t);
  let isThere = true;
  ui.api = ({ pathname }) => {
    if (pathname.startsWith('/v1/')) return Response.json({ code: 'unauthorized' }, { status: 401 });
    return isThere ? Response.json(ADA) : Response.json({ code: 'account_not_found' }, { status: 404 });
  };
  const used = await ui.post('/welcome', WELCOME);
  const cookie = used.headers.getSetCookie()[0]!.split(';')[0]!;
  assert.equal((await ui.get('/v1/apps', cookie)).status, 503);
  assert.equal((await ui.get('/session', cookie)).status, 200);
  isThere = false;
  assert.equal((await ui.get('/v1/apps', cookie)).status, 401);
  isThere = true;
  assert.equal(((await (await ui.get('/session', cookie)).json()) as { account: unknown }).account, null);
});

test('the delay of attempts doubles each time, is a minute at most, and starts again after a success', () => {
  const attempts = new Attempts();
  for (let n = 0; n < 5; n++) assert.equal(attempts.begin('ada', 0), 0);
  let now = 0;
  const waits = [];
  for (let n = 0; n < 8; n++) {
    const wait = attempts.begin('ada', now);
    waits.push(wait);
    now += wait * 1000;
    assert.equal(attempts.begin('ada', now), 0);
  }
  assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
  attempts.succeeded('ada');
  assert.equal(attempts.begin('ada', now), 0);
  assert.equal(attempts.begin('ada', now), 0);
});

test('a limit counts by the minute, and its memory is bounded', () => {
  const limiter = new Limiter(1);
  assert.deepEqual([limiter.admit('a', 0), limiter.admit('a', 1000), limiter.admit('a', 60_000)], [0, 59, 0]);
  for (let n = 0; n < 20_000; n++) limiter.admit(`other ${n}`, 60_000);
  assert.equal(limiter.admit('a', 60_001), 0);
});

test('a client is an IPv4 address, or the /64 of an IPv6 one', () => {
  const of = (address: string) => clientOf(new Headers({ 'x-real-ip': address }));
  assert.equal(of('192.0.2.1'), '192.0.2.1');
  assert.equal(of('2001:db8:0:1:aaaa::1'), '2001:db8:0:1');
  assert.equal(of('2001:DB8:0:1::2'), '2001:db8:0:1');
  assert.equal(of('2001:db8::2'), '2001:db8:0:0');
  assert.equal(of('::1'), '0:0:0:0');
});

test('foreign cookies are left out, and so is one that comes twice', () => {
  assert.equal(ownCookies(null, 'cellar'), '');
  assert.equal(ownCookies('a=1; cellar.b=2;cellar.c=3=4', 'cellar'), 'cellar.b=2; cellar.c=3=4');
  assert.equal(ownCookies('cellar.b=2; cellar.b=3; cellar.c=4', 'cellar'), 'cellar.c=4');
  assert.equal(ownCookies('cellar.b=2; __Host-cellar.b=3', '__Host-cellar'), '__Host-cellar.b=3');
});

test('long JSON is compressed, and a file that a browser may ask for in parts is not', () => {
  const encodingOf = (length: number, headers: Record<string, string> = {}, accepted = 'gzip, br') => {
    const response = new Response('x'.repeat(length), {
      headers: { 'content-type': 'application/json', 'content-length': String(length), ...headers },
    });
    return compressed(response, accepted).headers.get('content-encoding');
  };
  assert.equal(encodingOf(2_000), 'gzip');
  assert.equal(encodingOf(100), null);
  assert.equal(encodingOf(2_000, {}, ''), null);
  assert.equal(encodingOf(2_000, { 'content-type': 'text/event-stream' }), null);
  assert.equal(encodingOf(2_000, { etag: '"a"', 'accept-ranges': 'bytes' }), null);
});
