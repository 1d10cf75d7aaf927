// The host answers calls of the handlers only after their writes are synced to the disk.
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Alerts } from '../../runtime/alerts/alerts.ts';
import { type HostServiceOptions, hostService } from '../../runtime/control/host-service.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const APP = 'a'.repeat(16);
const SECRET = 'the secret of this boot';
const ALERT = { url: 'https://alerts.example/', on: ['crash'] };

/** Starts the host's side of the binding, with alerts alone. `synced` stands for the disk's sync. */
async function service(t: TestContext, synced: () => Promise<void>) {
  const store = { ...openHostStore(join(temporaryDirectory(t), 'host.sqlite')), synced };
  const describe = (id: string) => ({ id, slug: 'shop', url: null });
  store.apps.want({ id: APP, slug: 'shop', generation: 1 } as never);
  const alerts = new Alerts({ store, key: 'a key of this machine', describe, deployUrl: () => null });
  // The test makes calls to alerts only.
  const server = createServer(
    hostService({ store, alerts, secret: SECRET } as unknown as HostServiceOptions),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    await new Promise((resolve) => server.close(resolve));
    store.close();
  });
  const { port } = server.address() as AddressInfo;
  const call = (method: string, path: string, body?: unknown) =>
    new Promise<{ status: number; body: string }>((resolve, reject) => {
      const headers = { authorization: `Bearer ${SECRET}` };
      const asked = request({ port, method, path, headers, agent: false }, async (response) => {
        const text = (await response.toArray()).join('');
        resolve({ status: response.statusCode!, body: text });
      });
      asked.on('error', reject).end(body === undefined ? '' : JSON.stringify(body));
    });
  return { store, call };
}

test('a call is answered after its writes are synced', async (t) => {
  const reached = Promise.withResolvers<void>();
  const disk = Promise.withResolvers<void>();
  let saved = 0;
  const { call, store } = await service(t, () => {
    saved = store.alerts.all().length;
    reached.resolve();
    return disk.promise;
  });
  let answered = false;
  const answer = call('POST', `/apps/${APP}/alerts`, ALERT).finally(() => {
    answered = true;
  });
  await reached.promise;
  assert.equal(saved, 1, 'it was written before');
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(answered, false);
  disk.resolve();
  const { status, body } = await answer;
  assert.equal(status, 200);
  assert.equal((await call('DELETE', `/apps/${APP}/alerts/${JSON.parse(body).id}`)).status, 204);
});

test('a call fails when its writes cannot be synced', async (t) => {
  const error = Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' });
  const { call } = await service(t, () => Promise.reject(error));
  const failed = await call('POST', `/apps/${APP}/alerts`, ALERT);
  assert.equal(failed.status, 500);
  assert.match(failed.body, /EIO/);
  error.code = 'ENOSPC';
  const full = await call('POST', `/apps/${APP}/alerts`, ALERT);
  assert.equal(full.status, 507);
  assert.match(full.body, /the disk of this machine is full/);
});
