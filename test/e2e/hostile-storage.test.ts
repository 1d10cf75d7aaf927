// An attacker who has escaped from workerd plants files for the host's storage readers. Callers of the API ask for data of
// other apps. Nothing of another app or the host leaks, and another app keeps serving.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually, readers } from '../support/processes.ts';
import { NEEDS_USERS } from '../support/users.ts';

const cellar = new Cellar();
const rpc = rpcOf(cellar);
const OWN = 'what-the-neighbour-keeps';
const ENDLESS = 'WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s) SELECT count(*) AS a FROM s';
const code = (own: string) => `
import { DurableObject } from 'cloudflare:workers';
export class Room extends DurableObject {
  put(value) { return this.ctx.storage.put('value', value); }
}
export default {
  async fetch(request, env) {
    if (new URL(request.url).pathname !== '/fill') return new Response('served');
    await env.ROOM.getByName('one').put('${own}');
    await env.DB.exec('CREATE TABLE IF NOT EXISTS t (a TEXT)');
    await env.DB.prepare('INSERT INTO t VALUES (?)').bind('${own}').run();
    await env.KV.put('small', '${own}');
    await env.KV.put('large', '${own}'.repeat(10_000));
    return new Response('filled');
  },
};`;
const CONFIG = `name = "app"
main = "index.js"
compatibility_date = "2026-10-01"
[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
[[d1_databases]]
binding = "DB"
[[kv_namespaces]]
binding = "KV"
`;

let hostile: string;
let neighbour: string;
let serving = true;
let watched: Promise<number>;

before(async () => {
  await cellar.start();
  for (const slug of ['hostile', 'neighbour']) {
    const own = slug === 'neighbour' ? OWN : 'what the hostile app keeps';
    await cellar.deploy(slug, 'hello', { 'index.js': code(own), 'wrangler.toml': CONFIG });
    assert.equal((await cellar.get(slug, '/fill')).text, 'filled');
  }
  hostile = (await rpc('apps.get_by_slug', { slug: 'hostile' })).id;
  neighbour = (await rpc('apps.get_by_slug', { slug: 'neighbour' })).id;
  await rpc('secrets.set', { id: neighbour, name: 'TOKEN', value: OWN });
  await cellar.call('POST', `/v1/apps/${hostile}/sleep`);
  watched = (async () => {
    let answers = 0;
    for (; serving; answers++) {
      assert.equal((await cellar.get('neighbour')).text, 'served');
      // Without a pause the requests would take the CPU time that the readers need.
      await sleep(20);
    }
    return answers;
  })();
});
after(() => cellar[Symbol.asyncDispose]());

const data = (id: string, ...path: string[]) => join(cellar.data, 'data', id, ...path);
const objects = (directory: string) =>
  readdirSync(directory)
    .filter((name) => /^[0-9a-f]{64}\.sqlite$/.test(name))
    .map((name) => join(directory, name));

/** Calls the storage operations whose names match `ways`. Asserts that no answer contains a secret of another app. */
async function assertNoLeak(ways: RegExp): Promise<void> {
  const id = hostile;
  const rows = ['t', 'neighbours', 'looping'];
  const calls: [string, object][] = [
    ['storage.overview', { id }],
    ['storage.d1.get', { id, database_id: 'DB' }],
    ['storage.d1.export', { id, database_id: 'DB' }],
    ['storage.d1.get', { id, database_id: 'DB', sql: 'SELECT * FROM t' }],
    ...rows.map((table): [string, object] => ['storage.d1.get', { id, database_id: 'DB', table }]),
    ['storage.do.get', { id, class_name: 'Room' }],
    ['storage.do.get', { id, class_name: 'Room', name: 'one' }],
    ['storage.do.get', { id, class_name: 'Room', name: 'one', table: 't' }],
    ['storage.kv.list', { id, namespace_id: 'KV' }],
    ...['small', 'large', 'outside'].map((key): [string, object] => [
      'storage.kv.get',
      { id, namespace_id: 'KV', key },
    ]),
  ];
  const secrets = [
    OWN,
    cellar.token,
    cellar.key,
    readFileSync(join(cellar.data, 'secrets-key'), 'utf8').trim(),
  ];
  for (const [method, params] of calls.filter(([method]) => ways.test(method))) {
    const from = performance.now();
    const answer = JSON.stringify(await rpc(method, params));
    const decoded = answer.replace(/"([A-Za-z0-9+/=]{16,})"/g, (_, text) =>
      Buffer.from(text, 'base64').toString(),
    );
    for (const secret of secrets) {
      assert.ok(!answer.includes(secret), `${method} ${JSON.stringify(params)}: ${answer.slice(0, 300)}`);
      assert.ok(!decoded.includes(secret), `${method} ${JSON.stringify(params)}: ${decoded.slice(0, 300)}`);
    }
    assert.ok(performance.now() - from < 30_000, method);
  }
}

/** Replaces a file by what `make` creates, checks for leaks, and restores the file. */
async function withReplaced(path: string, ways: RegExp, make: (path: string) => void): Promise<void> {
  const files = ['', '-wal', '-shm'].map((suffix) => path + suffix);
  for (const file of files) rmSync(`${file}.kept`, { recursive: true, force: true });
  const moved = files.filter((file) =>
    readdirSync(dirname(file)).includes(file.slice(dirname(file).length + 1)),
  );
  for (const file of moved) renameSync(file, `${file}.kept`);
  try {
    make(path);
    const owner = `${ownerOf(dirname(path))}`;
    execFileSync('chown', ['-h', '-R', owner, path]);
    await assertNoLeak(ways);
  } finally {
    for (const file of files) rmSync(file, { recursive: true, force: true });
    for (const file of moved) renameSync(`${file}.kept`, file);
  }
}

function ownerOf(path: string): string {
  return execFileSync('stat', ['-c', '%u:%g', path], { encoding: 'utf8' }).trim();
}

test('planted links, pipes and databases make no storage reader leak data or hang', NEEDS_USERS, async () => {
  const own = objects(data(hostile, 'do', 'D1Database'))[0]!;
  const theirs = objects(data(neighbour, 'do', 'D1Database'))[0]!;
  const [object] = readdirSync(data(hostile, 'do'))
    .filter((name) => !/^(D1Database|KVNamespace)$/.test(name))
    .flatMap((name) => objects(data(hostile, 'do', name)));
  const namespace = objects(data(hostile, 'do', 'KVNamespace'))[0]!;
  const [databases, rooms, keys] = [/overview|d1\.get/, /overview|do/, /overview|kv/];
  for (const [path, ways] of [
    [own, databases],
    [object!, rooms],
    [namespace, keys],
  ] as const) {
    const alsoExported = ways === databases ? /overview|d1/ : ways;
    await withReplaced(path, alsoExported, (at) => symlinkSync(theirs, at));
    await withReplaced(path, ways, (at) => symlinkSync(join(cellar.data, 'host.sqlite'), at));
    await withReplaced(path, ways, (at) => execFileSync('mkfifo', [at]));
    await withReplaced(path, ways, (at) => mkdirSync(at));
    await withReplaced(path, ways, (at) => writeFileSync(at, 'SQLite format 3\0'.repeat(4_000)));
  }
  // Here the parent directory is a link.
  await withReplaced(dirname(own), databases, (at) => symlinkSync(dirname(theirs), at));
  await withReplaced(own, /d1/, (at) => {
    const database = new DatabaseSync(at);
    database.exec(`CREATE TABLE t (a); CREATE VIEW neighbours AS SELECT readfile('${theirs}') AS a`);
    database.close();
  });
  await withReplaced(object!, rooms, (at) => {
    const database = new DatabaseSync(at);
    database.exec(
      `CREATE VIEW _cf_KV AS SELECT 'key' AS key, (${ENDLESS}) AS value; CREATE VIEW t AS ${ENDLESS}`,
    );
    database.close();
  });
  await withReplaced(join(dirname(object!), 'metadata.sqlite'), rooms, (at) => {
    const database = new DatabaseSync(at);
    database.exec(
      `CREATE VIEW _cf_ALARM AS SELECT (${ENDLESS}) AS actor_id, 1 AS scheduled_time, 'x' AS actor_name`,
    );
    database.close();
  });
});

test('rows of KV that name files of others, and endless values, leak nothing', NEEDS_USERS, async () => {
  const path = objects(data(hostile, 'do', 'KVNamespace'))[0]!;
  const id = path.slice(-71, -7);
  const large = readdirSync(data(neighbour, 'kv'), { recursive: true, encoding: 'utf8' }).find((name) =>
    /\/b\/[0-9a-f]+$/.test(name),
  )!;
  const database = new DatabaseSync(path);
  const name = (blob: string) =>
    database.prepare("INSERT OR REPLACE INTO entries (key, blob) VALUES ('outside', ?)").run(blob);
  for (const blob of [
    '../../../../token',
    join(cellar.data, 'token'),
    `${'0'.repeat(64)}/b/../../../token`,
  ]) {
    name(blob);
    await assertNoLeak(/kv/);
  }
  name(`${id}/b/abcd`);
  const link = data(hostile, 'kv', id, 'b', 'abcd');
  for (const target of [
    join(cellar.data, 'token'),
    data(neighbour, 'kv', large),
    '/dev/zero',
    '/etc/shadow',
  ]) {
    symlinkSync(target, link);
    await assertNoLeak(/kv/);
    rmSync(link);
  }
  execFileSync('mkfifo', [link]);
  await assertNoLeak(/kv/);
  database.close();
});

test('SQL statements that open other files are refused, for reads and writes', async () => {
  const theirs = data(neighbour, 'do', 'D1Database');
  const file = objects(theirs)[0]!;
  for (const sql of [
    `ATTACH '${file}' AS other`,
    `SELECT * FROM '${file}'.t`,
    `VACUUM INTO '${data(hostile, 'copy.sqlite')}'`,
    `SELECT readfile('${join(cellar.data, 'token')}')`,
    `SELECT load_extension('/tmp/x')`,
    'PRAGMA database_list',
    'SELECT * FROM _cf_KV',
    "INSERT INTO sqlite_schema VALUES ('x', 'x', 'x', 0, 'x')",
  ]) {
    const read = await rpc('storage.d1.get', { id: hostile, database_id: 'DB', sql });
    assert.equal(read.code, 'query_failed', sql);
    const written = await rpc('storage.d1.write', { id: hostile, database_id: 'DB', sql });
    assert.ok(!JSON.stringify(written).includes(OWN), sql);
    const imported = await rpc('storage.d1.import', { id: hostile, database_id: 'DB', sql });
    assert.ok(!JSON.stringify(imported).includes(OWN), sql);
    if (!/^(?:PRAGMA|SELECT readfile)/.test(sql)) assert.equal(imported.code, 'query_failed', sql);
    // `PRAGMA database_list` returns no rows in a write.
    if (!sql.startsWith('PRAGMA')) assert.equal(written.code, 'query_failed', sql);
  }
  for (const database_id of ['../DB', neighbour, `../../${neighbour}`])
    assert.equal((await rpc('storage.d1.get', { id: hostile, database_id })).code, 'storage_not_found');
});

test('a forged schema is exported as text, and its import writes to no other file', NEEDS_USERS, async () => {
  const own = objects(data(hostile, 'do', 'D1Database'))[0]!;
  const theirs = objects(data(neighbour, 'do', 'D1Database'))[0]!;
  await withReplaced(own, /d1/, (at) => {
    const database = new DatabaseSync(at);
    const named = `"x"; ATTACH '${theirs}' AS other; SELECT * FROM other.t; --`;
    database.exec(`CREATE TABLE t (a); CREATE TABLE [${named}] (a); INSERT INTO t VALUES ('own')`);
    database.close();
  });
  const sql = `CREATE TABLE "x'; ATTACH '${theirs}' AS other; --" (a);
    CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT readfile('${theirs}'); END; INSERT INTO t VALUES ('x')`;
  const imported = await rpc('storage.d1.import', { id: hostile, database_id: 'DB', sql });
  assert.equal(imported.code, 'query_failed', JSON.stringify(imported));
  const { sql: whole } = await rpc('storage.d1.export', { id: hostile, database_id: 'DB' });
  assert.ok(!whole.includes('ATTACH') && !whole.includes(OWN), whole);
});

test('an app with the same bindings reaches no data of another app by keys, SQL or its environment', async () => {
  const config = JSON.parse(readFileSync(new URL('../apps/hostile/wrangler.jsonc', import.meta.url), 'utf8'));
  const same = { kv_namespaces: [{ binding: 'KV', id: 'KV' }], d1_databases: [{ binding: 'DB' }] };
  const { main, compatibility_date, durable_objects, migrations, workflows } = config;
  const own = { main, compatibility_date, durable_objects, migrations, workflows, ...same };
  await cellar.deploy('thief', 'hostile', { 'wrangler.jsonc': JSON.stringify(own) });
  const files = objects(data(neighbour, 'do', 'D1Database'));
  const names = ['small', 'large', neighbour, join(cellar.data, 'token'), cellar.data, ...files];
  const asked = names.map((name) => `name=${encodeURIComponent(name)}`).join('&');
  const { tried, said } = JSON.parse((await cellar.get('thief', `/reach?${asked}`)).text);
  assert.equal(tried, names.length * (3 * 7 + 8) + 4);
  for (const secret of [OWN, cellar.token, cellar.key]) assert.ok(!said.join('\n').includes(secret), secret);
  const kept = await rpc('storage.kv.get', { id: neighbour, namespace_id: 'KV', key: 'small' });
  assert.equal(Buffer.from(kept.value_base64, 'base64').toString(), OWN);
  const read = { id: neighbour, database_id: 'DB', sql: 'SELECT a FROM t' };
  assert.deepEqual((await rpc('storage.d1.get', read)).rows, [[OWN]]);
});

test('export, import, alerts, snapshots and figures are closed to other accounts, strangers and the app itself', async () => {
  const { id: account } = await rpc('accounts.create', { name: 'Mallory', email: 'mallory@example.com' });
  const { key } = await rpc('keys.create', { account });
  const calls: [string, object][] = [
    ['storage.d1.export', { id: neighbour, database_id: 'DB' }],
    ['storage.d1.import', { id: neighbour, database_id: 'DB', sql: 'DELETE FROM t' }],
    ['alerts.list', { id: neighbour }],
    ['alerts.set', { id: neighbour, url: 'https://example.com/mine' }],
    ['alerts.test', { id: neighbour, alert_id: 'a'.repeat(16) }],
    ['alerts.delete', { id: neighbour, alert_id: 'a'.repeat(16) }],
    ['snapshots.list', {}],
    ['admin.snapshot', {}],
    ['admin.restore', { snapshot: 'latest', app: 'neighbour' }],
    ['admin.stats', {}],
  ];
  for (const [method, params] of calls) {
    const answer = await rpc(method, params, { key });
    assert.match(String(answer.code), /^(?:forbidden|app_not_found)$/, `${method} ${JSON.stringify(answer)}`);
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const headers = { 'content-type': 'application/json' };
    const stranger = await fetch(`${cellar.api}/rpc`, { method: 'POST', headers, body });
    assert.equal(stranger.status, 401, method);
  }
  assert.deepEqual((await rpc('alerts.list', { id: neighbour })).items, []);
  const asked = async (headers: Record<string, string>) =>
    (await fetch(`${cellar.api}/metrics`, { headers })).status;
  assert.deepEqual([await asked({ authorization: `Bearer ${key}` }), await asked({})], [403, 401]);
  // All paths of an app's host name go to the app.
  assert.equal((await cellar.get('hostile', '/metrics')).text, 'served');
  const { rows } = await rpc('storage.d1.get', {
    id: neighbour,
    database_id: 'DB',
    sql: 'SELECT count(*) FROM t',
  });
  assert.deepEqual(rows, [[1]]);
});

test('no visitor reaches the entrypoint that writes, and names of secrets do not affect programs', async () => {
  const body = JSON.stringify({
    kind: 'd1',
    binding: 'DB',
    statements: [{ sql: 'DELETE FROM t', params: [] }],
  });
  assert.equal((await cellar.get('neighbour', '/', { method: 'POST', body })).text, 'served');
  const { rows } = await rpc('storage.d1.get', {
    id: neighbour,
    database_id: 'DB',
    sql: 'SELECT count(*) FROM t',
  });
  assert.deepEqual(rows, [[1]]);
  for (const name of ['LD_PRELOAD', 'PATH', 'constructor', 'toString', '$', 'DB'])
    assert.equal((await rpc('secrets.set', { id: hostile, name, value: '/tmp/evil.so' })).name, name);
  for (const name of ['__proto__', 'a b', 'A=B', "x'; touch /tmp/x; '", '', 'é'])
    assert.equal((await rpc('secrets.set', { id: hostile, name, value: 'x' })).code, 'invalid_input', name);
  const value = `'; touch ${cellar.directory}/made; echo '\n$(touch ${cellar.directory}/made)`;
  await rpc('secrets.set', { id: hostile, name: 'QUOTES', value });
  assert.equal((await cellar.get('hostile')).text, 'served');
  assert.ok(!readdirSync(cellar.directory).includes('made'));
});

test('later reads succeed after the storage readers were killed', async () => {
  const asked = rpc('storage.d1.get', { id: hostile, database_id: 'DB', sql: ENDLESS });
  let isAnswered = false;
  void asked.then(() => {
    isAnswered = true;
  });
  // Kills idle readers too.
  await eventually(() => {
    for (const { pid } of readers(cellar.pid)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // The process has ended meanwhile.
      }
    }
    return isAnswered;
  }, 'it is given up');
  assert.equal((await asked).code, 'storage_unreadable');
  const { rows } = await rpc('storage.d1.get', { id: hostile, database_id: 'DB', sql: 'SELECT 1' });
  assert.deepEqual(rows, [[1]]);
  await eventually(() => readers(cellar.pid).length === 0, 'no reader is left');
});

test('the neighbour has served during all tests', async () => {
  serving = false;
  assert.ok((await watched) > 10);
});
