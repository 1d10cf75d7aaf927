// Deploys of an app under load: no request fails, no acknowledged write is lost, and no two processes have its storage
// open at once.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { COUNTER_CONFIG } from '../support/e2e/cellar.ts';
import { sharedCellar } from '../support/e2e/shared.ts';
import { watchStorage } from '../support/e2e/storage-watch.ts';

const DEPLOYS = 10;
const CLIENTS = 4;
/** Pause between two requests of a client, in ms: short, so that many requests come during a deploy. */
const PAUSE_MS = 5;

/** A Worker that counts each request in a Durable Object, stores the number in D1, and then answers with it. */
const worker = (version: number) => `
import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  async next() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
  last() {
    return this.ctx.storage.get('n');
  }
}
export default {
  async fetch(request, env) {
    const counter = env.COUNTER.getByName('one');
    if (new URL(request.url).pathname === '/state') {
      const { results } = await env.DB.prepare('SELECT n FROM requests ORDER BY n').all();
      return Response.json({ last: await counter.last(), rows: results.map(({ n }) => n) });
    }
    const n = await counter.next();
    await env.DB.prepare('INSERT INTO requests (n, version) VALUES (?, ?)').bind(n, ${version}).run();
    return Response.json({ n, version: ${version} });
  },
};
`;
const CONFIG = `${COUNTER_CONFIG}[[d1_databases]]
binding = "DB"
database_name = "requests"
`;

const cellar = sharedCellar('storage');

test(`${DEPLOYS} deploys under load fail no request, lose no acknowledged write, and never have two processes on the storage`, async (t) => {
  const id = await cellar.create('swapped');
  const work = await cellar.checkout('hello');
  mkdirSync(join(work, 'migrations'));
  writeFileSync(join(work, 'wrangler.toml'), CONFIG);
  writeFileSync(
    join(work, 'migrations/0001_requests.sql'),
    'CREATE TABLE requests (n INTEGER PRIMARY KEY, version INTEGER NOT NULL);',
  );
  const deploy = async (version: number) => {
    writeFileSync(join(work, 'index.js'), worker(version));
    await cellar.commit(work, `version ${version}`);
    const { code, stderr } = await cellar.push(work, 'swapped');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /serves this push/);
  };
  await deploy(0);

  const watched = watchStorage(join(cellar.data, 'data', id));
  const acknowledged: { n: number; version: number }[] = [];
  const failures: string[] = [];
  let longestMs = 0;
  let stop = false;
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (!stop) {
      const from = performance.now();
      try {
        const { status, text } = await cellar.get('swapped');
        if (status === 200) acknowledged.push(JSON.parse(text));
        else failures.push(`${status} ${text}`);
      } catch (error) {
        failures.push(String((error as Error).cause ?? error));
      }
      longestMs = Math.max(longestMs, performance.now() - from);
      // The deploys need CPU time too.
      await sleep(PAUSE_MS);
    }
  });
  for (let version = 1; version <= DEPLOYS; version++) await deploy(version);
  stop = true;
  await Promise.all(clients);
  const { looks, pids, together } = await watched();

  assert.deepEqual(failures, []);
  const numbers = acknowledged.map(({ n }) => n).sort((a, b) => a - b);
  assert.deepEqual(
    numbers,
    Array.from({ length: numbers.length }, (_, i) => i + 1),
    'each acknowledged number was given once, and none went missing',
  );
  const state = JSON.parse((await cellar.get('swapped', '/state')).text);
  assert.deepEqual(state, { last: numbers.length, rows: numbers });
  assert.deepEqual(together, [], 'two processes on the storage at once');
  assert.equal(pids.length, DEPLOYS + 1, 'each release was seen on the storage');
  const versions = new Set(acknowledged.map(({ version }) => version));
  assert.equal(versions.size, DEPLOYS + 1, 'each release answered requests');
  t.diagnostic(
    `${numbers.length} requests, the longest ${Math.round(longestMs)} ms; ${looks} looks at the processes`,
  );
});
