// Buckets of apps that were pushed, on a real host.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/e2e/processes.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const put = (slug: string, path: string, body: string) => cellar.get(slug, path, { method: 'PUT', body });

test('an app keeps files in its bucket, across deploys, sleep and a killed host, and apart from other apps', async () => {
  const work = await cellar.checkout('bucket');
  const [id, other] = [await cellar.create('keeper'), await cellar.create('stranger')];
  const { stderr } = await cellar.push(work, 'keeper');
  assert.match(stderr, /r2_buckets\.jurisdiction ignored/);
  await cellar.push(work, 'stranger');

  assert.equal((await put('keeper', '/a/b.txt', 'hello')).status, 200);
  assert.equal((await cellar.get('keeper', '/a/b.txt')).text, 'hello');
  assert.deepEqual(JSON.parse((await cellar.get('keeper', '/')).text), ['a/b.txt']);
  assert.deepEqual(JSON.parse((await cellar.get('stranger', '/')).text), []);

  await cellar.deployAgain('keeper', 'bucket', { 'extra.txt': 'another release' });
  assert.equal((await cellar.get('keeper', '/a/b.txt')).text, 'hello');
  assert.equal((await cellar.call('POST', `/v1/apps/${id}/sleep`)).body.status, 'sleeping');
  assert.equal((await cellar.get('keeper', '/a/b.txt')).text, 'hello');

  assert.equal((await put('keeper', '/late', 'acknowledged')).status, 200);
  await cellar.stop('SIGKILL');
  await cellar.start();
  assert.equal((await cellar.get('keeper', '/late')).text, 'acknowledged');
  await cellar.get('keeper', '/late', { method: 'DELETE' });
  assert.equal((await cellar.get('keeper', '/late')).status, 404);

  assert.equal((await cellar.call('DELETE', `/v1/apps/${id}`)).status, 204);
  await eventually(() => !existsSync(join(cellar.data, 'buckets', id)), 'the buckets have gone');
  const trash = readdirSync(join(cellar.data, 'trash')).find((name) => name.startsWith(id))!;
  assert.equal(readdirSync(join(cellar.data, 'trash', trash, 'buckets', 'blobs')).length, 1);
  assert.equal((await put('stranger', '/x', 'still here')).status, 200);
  assert.ok(statSync(join(cellar.data, 'buckets', other, 'r2.sock')).isSocket());
  assert.equal(cells(other).length, 1);
});
