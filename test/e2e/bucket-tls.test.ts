// A store behind TLS, whose certificate is from an authority of the operator's own.
import assert from 'node:assert/strict';
import { chmodSync, copyFileSync, readFileSync } from 'node:fs';
import type { AddressInfo, Socket } from 'node:net';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { createServer } from 'node:tls';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const CERTIFICATE = join(import.meta.dirname, '../support/git/localhost.pem');

/** Puts TLS in front of a store. @returns its endpoint */
async function withTls(t: TestContext, store: MemoryStore): Promise<string> {
  const pem = readFileSync(CERTIFICATE);
  const sockets = new Set<Socket>();
  const server = createServer({ key: pem, cert: pem }, (client) => {
    const behind = connect(Number(new URL(store.endpoint).port), '127.0.0.1');
    for (const socket of [client, behind]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        sockets.delete(socket);
        client.destroy();
        behind.destroy();
      });
    }
    client.pipe(behind).pipe(client);
  });
  server.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `https://localhost:${(server.address() as AddressInfo).port}`;
}

test('with NODE_EXTRA_CA_CERTS all parts trust the store, also those of other users', async (t) => {
  await using store = await new MemoryStore().start();
  const authority = join(temporaryDirectory(t), 'authority.pem');
  copyFileSync(CERTIFICATE, authority);
  chmodSync(authority, 0o600);
  const endpoint = await withTls(t, store);
  const settings = {
    ...bucketSettings({ ...store.place('of/cellar/'), endpoint }),
    RUNNER_STORAGE: 'bucket',
  };
  await using cellar = await new Cellar({ ...settings, NODE_EXTRA_CA_CERTS: authority }).start();
  const id = await cellar.deploy('shop', 'hello', {});
  assert.equal((await cellar.get('shop')).status, 200);
  await rpcOf(cellar)('admin.snapshot', {});
  const names = [...store.objects.keys()];
  for (const part of [
    `apps/${id}/data/`,
    `apps/${id}/releases/`,
    'apps/control/data/',
    'records/',
    'snapshots/',
  ])
    assert.ok(
      names.some((name) => name.startsWith(`of/cellar/${part}`)),
      part,
    );
});

test('a certificate of an unknown authority is refused at the first start, with what to do', async (t) => {
  await using store = await new MemoryStore().start();
  const endpoint = await withTls(t, store);
  await using cellar = new Cellar(bucketSettings({ ...store.place(), endpoint }));
  await assert.rejects(cellar.start(), /certificate is from an unknown authority: .*NODE_EXTRA_CA_CERTS/s);
  assert.equal(store.asked.length, 0);
});
