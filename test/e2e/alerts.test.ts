// Alerts through the real host: a webhook notifies the owner of an app's failures.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Receiver, signatureOf } from '../support/alerts/receiver.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { cells, eventually } from '../support/processes.ts';

const shared = sharedCellar('running');

/** Calls a method by JSON-RPC. */
// biome-ignore lint/suspicious/noExplicitAny: an answer's shape is what the test asserts
async function rpc(cellar: Cellar, method: string, params: object): Promise<any> {
  const { body } = await cellar.call('POST', '/rpc', { jsonrpc: '2.0', id: 1, method, params });
  return body.error ? { refused: body.error.data } : body.result;
}

test('a webhook gets signed messages about a failed deploy and a crash', async () => {
  await using receiver = await Receiver.start();
  await using cellar = await new Cellar({ RUNNER_EGRESS_ALLOW: '127.0.0.1' }).start();
  const id = await cellar.deploy('shop', 'hello', {
    'index.js': `export default { fetch(request) {
      if (new URL(request.url).pathname === '/broken') throw new TypeError('the cart is empty');
      return new Response('ok');
    } };`,
  });
  const { secret, id: alert_id, ...alert } = await rpc(cellar, 'alerts.set', { id, url: receiver.url });
  assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  const kinds = [
    'error',
    'error_rate',
    'crash',
    'deploy',
    'memory',
    'cpu',
    'latency',
    'queue_backlog',
    'disk',
    'certificate',
    'snapshot',
    'bucket',
    'host',
  ];
  assert.deepEqual(alert.on, kinds);

  const tried = await rpc(cellar, 'alerts.test', { id, alert_id });
  assert.deepEqual([tried.status, tried.error, tried.type], [204, null, 'alert.test']);
  const [message] = receiver.received;
  assert.equal(message!.headers['webhook-signature'], signatureOf(message!, secret));
  assert.deepEqual(message!.body.data.app, {
    id,
    slug: 'shop',
    url: `http://shop.localhost:${cellar.edgePort}`,
  });
  assert.equal((await rpc(cellar, 'alerts.test', { id, alert_id })).refused.code, 'rate_limited');

  await cellar.get('shop', '/broken');
  await cellar.get('shop', '/broken');
  const error = await receiver.first(({ body }) => body.type === 'error.new');
  assert.match(error.body.data.message, /^TypeError: the cart is empty \(index\.js:2:\d+\)$/);
  assert.equal(error.body.data.error.regressed, false);

  await assert.rejects(cellar.deployAgain('shop', 'hello', { 'index.js': 'export default {' }));
  const deploy = await receiver.first(({ body }) => body.type === 'deploy.failed');
  assert.match(deploy.body.data.message, /index\.js/);
  assert.equal(deploy.body.data.deploy.trigger, 'push');

  assert.equal((await cellar.get('shop')).status, 200);
  process.kill(cells(id)[0]!.pid, 'SIGKILL');
  const crash = await receiver.first(({ body }) => body.type === 'app.crashed');
  assert.match(crash.body.data.message, /SIGKILL/);
  await eventually(async () => (await cellar.get('shop')).status === 200, 'the app runs again');
  process.kill(cells(id)[0]!.pid, 'SIGKILL');
  await eventually(async () => (await cellar.get('shop')).status === 200, 'the app runs again');

  const { items } = await rpc(cellar, 'alerts.list', { id });
  assert.equal(items.length, 1);
  assert.equal('secret' in items[0], false);
  // The result of a delivery is stored after the receiver has answered.
  await eventually(async () => {
    const [{ last_delivery }] = (await rpc(cellar, 'alerts.list', { id })).items;
    // On a slow machine the restarts may cause other alerts, such as one of the error rate.
    return last_delivery.type === receiver.received.at(-1)!.body.type;
  }, 'the last delivery is what was received last');
  const changed = await rpc(cellar, 'alerts.set', { id, alert_id, on: ['disk'], error_rate: 50 });
  assert.deepEqual(
    [changed.url, changed.on, changed.error_rate, changed.secret],
    [receiver.url, ['disk'], 50, null],
  );

  for (const type of ['app.crashed', 'error.new']) {
    const messages = receiver.received.filter(({ body }) => body.type === type);
    // A delivery with a late answer is repeated with the same id. Crashes form a separate error.
    const errors = new Map(
      messages.map(({ headers, body }) => [headers['webhook-id'], body.data.error?.fingerprint]),
    );
    assert.equal(errors.size, new Set(errors.values()).size, `once an hour: ${JSON.stringify(messages)}`);
  }

  const failed = async (): Promise<number> =>
    (await rpc(cellar, 'metrics.get', { id, hours: 1 })).items.reduce(
      (sum: number, item: { errors: number }) => sum + item.errors,
      0,
    );
  const before = await failed();
  await cellar.get('shop');
  for (let n = 0; n < 40; n++) await cellar.get('shop', '/broken');
  await eventually(async () => (await failed()) >= before + 40, 'all are counted');
  // A new alert, because one that has reported the error rate during the requests is silent for an hour.
  await rpc(cellar, 'alerts.delete', { id, alert_id });
  const from = receiver.received.length;
  const renewed = { id, url: receiver.url, on: ['error_rate'], error_rate: 50 };
  const { id: next_id } = await rpc(cellar, 'alerts.set', renewed);
  // The first check after a start includes requests counted before it.
  await cellar.stop();
  await cellar.start();
  const rate = await receiver.first(
    (message) => message.body.type === 'error_rate.high' && receiver.received.indexOf(message) >= from,
  );
  const { requests, errors } = rate.body.data;
  assert.match(rate.body.data.message, /^\d+ of \d+ requests of the last 5 minutes failed \(\d\d %\)\.$/);
  assert.ok(errors >= 40 && errors < requests, JSON.stringify(rate.body.data));

  await rpc(cellar, 'alerts.delete', { id, alert_id: next_id });
  assert.equal(
    (await rpc(cellar, 'alerts.delete', { id, alert_id: next_id })).refused.code,
    'alert_not_found',
  );
});

test('a webhook may be an app of this machine, by its name, but nothing else here', async () => {
  const id = await shared.deploy('teller', 'hello', {
    'index.js':
      "export default { fetch: (request) => new Response(null, { status: request.headers.has('webhook-id') ? 202 : 400 }) };",
  });
  const tested = async (url: string) => {
    const { id: alert_id } = await rpc(shared, 'alerts.set', { id, url });
    let sent = await rpc(shared, 'alerts.test', { id, alert_id });
    await eventually(async () => {
      if (sent.refused) sent = await rpc(shared, 'alerts.test', { id, alert_id });
      return !sent.refused;
    }, 'a test is allowed again');
    return sent;
  };
  assert.equal((await tested(`http://teller.localhost:${shared.edgePort}/hook`)).status, 202);
  for (const host of [
    `api.localhost:${shared.edgePort}`,
    `nobody.localhost:${shared.edgePort}`,
    'teller.localhost:1',
  ])
    assert.match((await tested(`http://${host}/`)).error!, /not a public address|ENOTFOUND/, host);
});

test('an invalid alert is refused with its field, and a webhook to this machine unless the operator allows it', async () => {
  await using receiver = await Receiver.start();
  const id = await shared.create('alerting');
  const refusal = async (params: object) => {
    const { refused } = await rpc(shared, 'alerts.set', { id, ...params });
    return refused.errors?.map(({ path, message }: Record<string, string>) => `${path} ${message}`).join();
  };
  assert.equal(await refusal({}), 'url is missing; a new alert needs it');
  for (const url of [
    'shop',
    'ftp://example.com',
    'https://me:pass@example.com',
    'mailto:a@b.c,d@e.f',
    'mailto:a@b.c?bcc=d@e.f',
  ])
    assert.equal(
      await refusal({ url }),
      'url must be an http or https address without a user name or password, or mailto: with one e-mail address',
    );
  assert.match(await refusal({ url: receiver.url, on: [] }), /^on /);
  assert.match(await refusal({ url: receiver.url, on: ['disk', 'disk'] }), /^on must name each kind once/);
  assert.match(await refusal({ url: receiver.url, on: ['smoke'] }), /^on\.0 /);
  assert.match(await refusal({ url: receiver.url, error_rate: 0 }), /^error_rate /);
  assert.match(await refusal({ url: receiver.url, for_minutes: 31 }), /^for_minutes /);
  assert.match(await refusal({ url: receiver.url, format: 'fax' }), /^format /);
  const unknown = await rpc(shared, 'alerts.set', { id, alert_id: 'nothing' });
  assert.equal(unknown.refused.code, 'alert_not_found');
  const nowhere = await rpc(shared, 'alerts.set', { id: 'a'.repeat(16), url: receiver.url });
  assert.equal(nowhere.refused.code, 'app_not_found');

  const { id: alert_id } = await rpc(shared, 'alerts.set', { id, url: receiver.url });
  const { status, error } = await rpc(shared, 'alerts.test', { id, alert_id });
  assert.equal(status, null);
  assert.match(error, /127\.0\.0\.1 is not a public address; .*RUNNER_EGRESS_ALLOW/);
  assert.deepEqual(receiver.received, []);
});
