// Ownership of the files and the socket of an app's buckets.
// Runs as root too.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { asUser } from '../../runtime/isolation/users.ts';
import { Buckets } from '../../runtime/storage/r2/buckets.ts';
import { BucketClient } from '../../runtime/storage/r2/client.ts';
import { APP_ID, bodyOf, startBuckets } from '../support/storage/r2.ts';
import { NEEDS_USERS } from '../support/users.ts';

const plain = { httpFields: {}, customFields: [] };

test("no app's user can reach another app's socket or any file", NEEDS_USERS, async (t) => {
  const { paths } = startBuckets(t);
  chmodSync(dirname(paths.root), 0o711);
  chmodSync(paths.root, 0o711);
  const base = 40_000_000 + (process.pid % 100_000) * 10;
  const ids = [APP_ID, 'b'.repeat(16)];
  const user = (n: number) => ({ uid: base + n, gid: base + n });
  const buckets = new Buckets({
    paths,
    users: (id) => ({ build: null, cell: user(ids.indexOf(id) + 1) }),
    service: { maxMb: 0, floorMb: 0 },
  });
  t.after(() => buckets.close());
  for (const id of ids)
    await new BucketClient(await buckets.open(id), 'main').put('secret', bodyOf(Buffer.from(id)), plain);
  const script = `
    const net = require('node:net'), fs = require('node:fs');
    const [socket, ...files] = process.argv.slice(1);
    const seen = files.filter((file) => { try { fs.readdirSync(file); return true; } catch {} try { fs.readFileSync(file); return true; } catch { return false; } });
    const end = (how) => { console.log(how + ' ' + seen.length); process.exit(); };
    net.connect(socket).on('connect', () => end('connected')).on('error', (error) => end(error.code));`;
  const tries = (n: number, id: string) => {
    const directory = paths.buckets(id);
    const files = [directory, join(directory, 'index.sqlite'), join(directory, 'blobs')];
    for (const file of files) assert.ok(existsSync(file), file);
    const [program, ...words] = asUser(user(n));
    const socket = join(directory, 'r2.sock');
    const result = spawnSync(program!, [...words, process.execPath, '-e', script, '--', socket, ...files], {
      cwd: '/',
      encoding: 'utf8',
    });
    return result.stdout.trim() || result.stderr;
  };
  assert.equal(tries(1, ids[0]!), 'connected 0');
  assert.equal(tries(2, ids[1]!), 'connected 0');
  assert.equal(tries(2, ids[0]!), 'EACCES 0');
  assert.equal(tries(1, ids[1]!), 'EACCES 0');
  assert.equal(statSync(join(paths.buckets(APP_ID), 'index.sqlite')).uid, user(0).uid);
});
