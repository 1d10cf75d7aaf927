// The control UI behind another proxy that terminates TLS.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { allPrinted, Visitor, welcomeOf } from '../support/e2e/visitor.ts';
import { ownPort } from '../support/ports.ts';

const ADA = { name: 'Ada', email: 'ada@example.com', password: 'a long enough password' };
const SESSION = '__Host-cellar.session_token';
let cellar: Cellar;
let origin: string;

before(async () => {
  const port = ownPort();
  origin = `https://cellar.localhost:${port}`;
  cellar = new Cellar({
    RUNNER_PORT: '0',
    RUNNER_EDGE_PORT: String(port),
    RUNNER_BASE_DOMAIN: 'cellar.localhost',
    RUNNER_PUBLIC_ORIGIN: `https://example.com:${port}`,
    RUNNER_TRUSTED_PROXIES: '127.0.0.1',
    SERVICE_RATE_LIMIT_RPM: '5',
  });
  await cellar.start();
});
after(() => cellar[Symbol.asyncDispose]());

/** Returns a visitor with a client address, behind the proxy. */
function at(address: string, from = origin): Visitor {
  return new Visitor(cellar, from, {
    'x-forwarded-proto': 'https',
    'x-forwarded-for': address,
    'x-forwarded-host': new URL(origin).host,
  });
}

test('the welcome link has the public origin, and an unused one is printed again unchanged after a SIGKILL', async () => {
  const token = await welcomeOf(cellar);
  assert.ok(cellar.output.includes(`${origin}/welcome?token=${token}`));
  const from = cellar.output.length;
  await cellar.stop('SIGKILL');
  await cellar.start();
  assert.equal(await welcomeOf(cellar, from), token);
});

test('cookies are valid only for this host and over HTTPS', async () => {
  const ada = at('192.0.2.1');
  const { status, headers } = await ada.ask('POST', '/welcome', { ...ADA, token: await welcomeOf(cellar) });
  assert.equal(status, 200);
  const cookie = headers.getSetCookie().find((line) => line.startsWith(`${SESSION}=`))!;
  assert.match(cookie, /; Path=\/; HttpOnly; Secure; SameSite=Strict$/);
  const { body } = await ada.ask('GET', '/session');
  assert.equal(body.account.email, ADA.email);
  assert.equal(body.urls.api, origin.replace('://', '://api.'));
  // An app cannot set a cookie with this name prefix for the parent domain.
  const value = ada.cookies.get(SESSION);
  const tossed = { cookie: `cellar.session_token=${value}; session_token=${value}` };
  assert.equal(await ada.account(tossed), null);
});

test('changes need the public origin, whatever protocol the proxy uses to the edge', async () => {
  const inner = at('192.0.2.2', `http://cellar.localhost:${cellar.edgePort}`);
  assert.equal(await inner.signIn(ADA.email, ADA.password), 403);
  assert.equal(await at('192.0.2.2').signIn(ADA.email, ADA.password), 200);
});

test('rate limits count the forwarded address, not that of the proxy', async () => {
  const eve = at('192.0.2.3');
  for (let n = 0; n < 5; n++) assert.equal(await eve.signIn(`nobody-${n}@example.com`, 'x'), 401);
  const { status, headers } = await eve.ask('POST', '/api/auth/sign-in/email', ADA);
  assert.equal(status, 429);
  assert.ok(Number(headers.get('retry-after')) >= 1);
  // Another class of routes, and another address, have separate limits.
  assert.equal((await eve.ask('POST', '/invites/look', { token: 'x' })).status, 404);
  assert.equal(await at('192.0.2.4').signIn(ADA.email, ADA.password), 200);
});

test('with an outside control UI there is no process of the control UI and no welcome link', async () => {
  await using other = await new Cellar({ RUNNER_UI_URL: 'https://ui.example.com' }).start();
  const response = await new Visitor(other).page('/apps');
  assert.deepEqual([response.status, response.headers.get('location')], [302, 'https://ui.example.com']);
  await allPrinted(other);
  assert.doesNotMatch(other.output, /welcome/);
  const { body } = await other.call('POST', '/rpc', {
    jsonrpc: '2.0',
    id: 1,
    method: 'invites.create',
    params: {},
  });
  assert.equal(body.error.data.code, 'forbidden');
});
