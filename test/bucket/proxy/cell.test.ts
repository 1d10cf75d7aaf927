// A clustered workerd reaches its bucket through the proxy.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';

import { appKeys } from '../../../runtime/bucket/app-keys.ts';
import type { S3Place } from '../../../runtime/bucket/place.ts';
import { startChild } from '../../../runtime/processes/child.ts';
import { ask, CLUSTER_KEY, startProxy } from '../../support/bucket/proxy.ts';
import { startS3 } from '../../support/bucket/s3.ts';
import { ownPort } from '../../support/ports.ts';
import { eventually } from '../../support/processes.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const WORKERD = createRequire(import.meta.url)('workerd').default as string;

const APP = `import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  add() {
    const { sql } = this.ctx.storage;
    sql.exec('CREATE TABLE IF NOT EXISTS adds (n INTEGER)');
    sql.exec('INSERT INTO adds VALUES (1)');
    return sql.exec('SELECT count(*) AS n FROM adds').one().n;
  }
}
export default { async fetch(request, env) { return new Response(String(await env.COUNTER.getByName('one').add())); } };`;

/** Starts a workerd of an app, with an empty disk. */
async function startCell(t: TestContext, place: S3Place, proxyPort: number, appId: string) {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, 'disk'));
  const { accessKey, secretKey, clusterKey } = appKeys(CLUSTER_KEY, appId);
  const port = ownPort();
  writeFileSync(join(directory, 'app.js'), APP);
  writeFileSync(
    join(directory, 'cell.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  cluster = (bucket = "s3://${place.bucket}/${place.prefix}apps/${appId}/data", address = "127.0.0.1:0", key = "${clusterKey}", stopTimeoutMs = 1000),
  services = [
    (name = "disk", disk = (path = "disk", writable = true)),
    (name = "app", worker = (modules = [(name = "app.js", esModule = embed "app.js")], compatibilityDate = "2026-10-01",
      bindings = [(name = "COUNTER", durableObjectNamespace = "Counter")],
      durableObjectNamespaces = [(className = "Counter", uniqueKey = "counter", enableSql = true)],
      durableObjectStorage = (localDisk = "disk"))) ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "app")]);`,
  );
  const child = await startChild([WORKERD, 'serve', 'cell.capnp', '--experimental'], {
    cwd: directory,
    environment: {
      AWS_ENDPOINT_URL: `http://127.0.0.1:${proxyPort}`,
      AWS_REGION: 'auto',
      AWS_ACCESS_KEY_ID: accessKey,
      AWS_SECRET_ACCESS_KEY: secretKey,
    },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk;
    });
  t.after(() => child.end());
  const add = async () => {
    const answer = await fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(20_000) });
    assert.equal(answer.status, 200, output);
    return Number(await answer.text());
  };
  await eventually(
    async () => {
      assert.ok(!child.hasEnded(), output);
      return await fetch(`http://127.0.0.1:${port}/`, { method: 'HEAD' }).then(
        () => true,
        () => false,
      );
    },
    'workerd listens',
    20_000,
  );
  return {
    add,
    stop: async () => {
      child.process.kill('SIGTERM');
      await child.exited;
    },
  };
}

test('what one process of an app writes, the next one reads; its operations are counted', async (t) => {
  await using store = await startS3();
  const place = store.place('of/cellar/');
  const { port, counts, away } = await startProxy(t, place);
  const first = await startCell(t, place, port, 'a1');
  const before = await first.add();
  assert.equal(await first.add(), before + 1);
  await first.stop();
  const second = await startCell(t, place, port, 'a1');
  assert.ok((await second.add()) > before + 1);
  await second.stop();
  assert.ok((await store.names()).every((name) => name.startsWith('of/cellar/apps/a1/data/v1/')));
  await eventually(() => (counts.get('a1')?.deletes ?? 0) > 0, 'its operations are counted');
  const { writes, reads, bytesIn, bytesOut } = counts.get('a1')!;
  for (const [name, count] of Object.entries({ writes, reads, bytesIn, bytesOut }))
    assert.ok(count > 4, `${name}: ${count}`);
  assert.deepEqual([...counts.keys()], ['a1']);
  assert.deepEqual(away, []);
});

test('an app goes on when the proxy is killed, and nothing that was acknowledged is lost', async (t) => {
  await using store = await startS3();
  const place = store.place('of/cellar/');
  const { proxy, port } = await startProxy(t, place);
  const cell = await startCell(t, place, port, 'a1');
  let acknowledged = await cell.add();
  for (let round = 0; round < 3; round++) {
    const pid = proxy.pid!;
    // A write that the proxy has not answered may fail, because nobody knows whether the store has it.
    const adding = Promise.allSettled(Array.from({ length: 5 }, () => cell.add()));
    process.kill(pid, 'SIGKILL');
    const added = (await adding).filter((each) => each.status === 'fulfilled').map(({ value }) => value);
    // The host keeps the listening socket open, so this request waits there for the next proxy.
    const next = await cell.add();
    assert.ok(next > Math.max(acknowledged, ...added), `${next} after ${acknowledged} and ${added}`);
    acknowledged = next;
    await eventually(() => proxy.pid !== null && proxy.pid !== pid, 'the proxy is started again');
  }
  await cell.stop();
});

test('a request that comes while the proxy is away waits for the next one', async (t) => {
  await using store = await startS3();
  const place = store.place('of/cellar/');
  const { proxy, port } = await startProxy(t, place);
  const path = `/${place.bucket}/${place.prefix}apps/a1/data/k`;
  process.kill(proxy.pid!, 'SIGKILL');
  await eventually(() => proxy.pid === null, 'the proxy is away');
  const { status } = await ask(port, 'a1', { method: 'PUT', path, body: 'x' });
  assert.equal(status, 200);
});

test('the secrets are in no command line and no environment of the proxy', async (t) => {
  await using store = await startS3();
  const place = store.place('');
  const { proxy } = await startProxy(t, place);
  for (const file of ['cmdline', 'environ']) {
    const found = readFileSync(`/proc/${proxy.pid}/${file}`, 'utf8');
    for (const secret of [place.secretKey, CLUSTER_KEY]) assert.ok(!found.includes(secret), file);
  }
});
