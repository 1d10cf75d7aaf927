// How a snapshot lists a directory, and how it knows that a file has not changed.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Listed, list } from '../../runtime/snapshots/take/listing.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const LONG_AGO = new Date('2026-01-01');

test('a file with old content has a stamp right after its owner changed, and another one after a write', (t) => {
  const root = temporaryDirectory(t);
  const path = join(root, 'data.sqlite');
  const stamp = () => list(root, { databases: true })[0]!.stamp;
  writeFileSync(path, 'old');
  assert.equal(stamp(), '', 'it may be written again within the same tick');
  utimesSync(path, LONG_AGO, LONG_AGO);
  const old = stamp();
  assert.notEqual(old, '');
  chmodSync(path, 0o600);
  assert.notEqual(stamp(), '', 'as by the snapshot itself, which gives storage to its app');
  writeFileSync(`${path}-wal`, 'more');
  assert.equal(stamp(), '');
  utimesSync(`${path}-wal`, LONG_AGO, LONG_AGO);
  assert.notEqual(stamp(), old);
});

test('a directory is listed without some names, or with some names only', (t) => {
  const root = temporaryDirectory(t);
  for (const name of ['objects', 'refs']) {
    mkdirSync(join(root, name, 'objects'), { recursive: true });
    writeFileSync(join(root, name, 'objects', 'x'), 'x');
  }
  writeFileSync(join(root, 'HEAD'), 'x');
  const paths = (listed: Listed[]) => listed.map(({ path }) => path);
  const objects = ['objects/', 'objects/objects/', 'objects/objects/x'];
  assert.deepEqual(paths(list(root, { databases: false, only: ['objects'] })), objects);
  const rest = paths(list(root, { databases: false, skip: ['objects'] }));
  assert.deepEqual(rest, ['HEAD', 'refs/', 'refs/objects/', 'refs/objects/x']);
});
