import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { assertGone, type Harness, harness } from '../../support/fleets/harness.ts';

/** Swaps releases, or adopts the next one. Returns the log. Without `options.commit`, a commit adds the line `commit`. */
async function swap(
  { fleet, release }: Harness,
  version: number,
  options: { code?: string; migrations?: Record<string, string>; commit?: () => void; adopt?: boolean } = {},
) {
  const log: string[] = [];
  const next = await release(version, options);
  const commit = async () => (options.commit ? options.commit() : void log.push('commit'));
  const steps = { commit, log: (line: string) => log.push(line) };
  await (options.adopt ? fleet.adopt(next, steps) : fleet.swap(next, steps));
  return log;
}

test('a first deploy starts the app after its migrations and before its requests', async (t) => {
  const app = harness(t);
  const log = await swap(app, 1);
  assert.deepEqual(log, ['DB: applied 1.sql', 'commit']);
  assert.equal((await app.ask('/')).text, '{"version":1,"count":1,"rows":1}');
  assert.equal(app.fleet.liveDeployId, 'release-1');
});

test('swaps under load drop no request, lose no write and never run two processes on the storage', async (t) => {
  const app = harness(t);
  await swap(app, 1);
  let stop = false;
  const answers: { version: number; count: number; rows: number }[] = [];
  const pids = new Set<number | null>();
  const load = Array.from({ length: 8 }, async () => {
    while (!stop) {
      const { status, text } = await app.ask('/');
      assert.equal(status, 200);
      answers.push(JSON.parse(text));
      pids.add(app.fleet.pid);
    }
  });
  for (const version of [2, 3, 4]) {
    const before = app.fleet.pid;
    await swap(app, version, { commit: () => assertGone(before) });
    assert.equal((await app.ask('/version')).text, String(version));
  }
  stop = true;
  await Promise.all(load);
  const counts = answers.map(({ count }) => count).sort((a, b) => a - b);
  assert.deepEqual(
    counts,
    Array.from({ length: answers.length }, (_, index) => index + 1),
  );
  assert.equal(Math.max(...answers.map(({ rows }) => rows)), answers.length);
  assert.deepEqual([...new Set(answers.map(({ version }) => version))].sort(), [1, 2, 3, 4]);
  t.diagnostic(`${answers.length} requests through 3 swaps`);
});

test('a request in flight finishes in the old process while requests for the new one are queued', async (t) => {
  const app = harness(t);
  await swap(app, 1);
  const slow = app.ask('/slow');
  const swapped = swap(app, 2);
  await app.until(() => app.fleet.state === 'starting');
  const held = app.ask('/');
  assert.match((await slow).text, /"version":1,"count":1/);
  assert.match((await held).text, /"version":2,"count":2/);
  await swapped;
});

test('a release that does not load never disturbs the live one', async (t) => {
  const app = harness(t);
  await swap(app, 1);
  const { pid } = app.fleet;
  const changes = app.states.length;
  const code = 'export default {\n  fetch() { return new Response( } }';
  await assert.rejects(swap(app, 2, { code, migrations: {} }), {
    message: "Uncaught SyntaxError: Unexpected token '}' at app.js:2:33",
  });
  assert.deepEqual([app.fleet.pid, app.states.length, app.fleet.liveDeployId], [pid, changes, 'release-1']);
  assert.equal((await app.ask('/')).status, 200);
});

test('a failed migration is rolled back, and the previous release serves again', async (t) => {
  const app = harness(t);
  await swap(app, 1);
  const migrations = { '1.sql': '', '2.sql': 'INSERT INTO hits VALUES (0);\nDROP TABLE nope;' };
  const swapped = swap(app, 2, { migrations });
  await app.until(() => app.fleet.state === 'starting');
  const held = app.ask('/');
  await assert.rejects(swapped, {
    message: 'migration of DB failed at 2.sql:2: no such table: nope: SQLITE_ERROR',
  });
  assert.equal((await held).text, '{"version":1,"count":1,"rows":1}');
  assert.deepEqual(
    [app.fleet.state, app.fleet.liveDeployId, app.fleet.lastError],
    ['running', 'release-1', null],
  );
});

test('a failed commit keeps the previous release live and ends the new process', async (t) => {
  const app = harness(t);
  await swap(app, 1);
  const commit = () => {
    throw new Error('disk full');
  };
  await assert.rejects(swap(app, 2, { commit }), { message: 'disk full' });
  assert.equal((await app.ask('/version')).text, '1');
});

test('a failed first deploy leaves the app never deployed', async (t) => {
  const app = harness(t);
  await assert.rejects(swap(app, 1, { migrations: { '1.sql': 'nonsense' } }), /1\.sql:1: near "nonsense"/);
  assert.deepEqual([app.fleet.state, app.fleet.liveDeployId], ['none', null]);
  assert.equal((await app.ask('/')).status, 404);
});

test('a deploy repairs a crashed app', async (t) => {
  const app = harness(t);
  const broken = await app.release(1, { code: 'throw new Error("no"); export default {}', migrations: {} });
  await assert.rejects(app.fleet.start(broken));
  await swap(app, 2);
  assert.deepEqual([app.fleet.state, app.fleet.lastError], ['running', null]);
  assert.equal((await app.ask('/version')).text, '2');
});

test('a deploy to a stopped app is tried and migrated, and starts with the app', async (t) => {
  const app = harness(t);
  await swap(app, 1);
  await app.fleet.stop();
  const migrations = { '1.sql': '', '2.sql': 'CREATE TABLE more(x)' };
  assert.deepEqual(await swap(app, 2, { adopt: true, migrations }), ['DB: applied 2.sql', 'commit']);
  assert.deepEqual([app.fleet.state, app.fleet.pid, app.fleet.liveDeployId], ['stopped', null, 'release-2']);
  assert.deepEqual(
    readdirSync(`${app.root}/run`).filter((name) => name.endsWith('.sock') && existsSync(name)),
    [],
  );
  const bad = { code: 'nonsense(', migrations };
  await assert.rejects(swap(app, 3, { ...bad, adopt: true }), /SyntaxError/);
  assert.equal(app.fleet.liveDeployId, 'release-2');
  await app.fleet.start(await app.release(2, { migrations }));
  assert.equal((await app.ask('/')).text, '{"version":2,"count":1,"rows":1}');
});

test('a stop during a swap wins', async (t) => {
  const app = harness(t);
  await swap(app, 1);
  const swapped = swap(app, 2);
  await app.until(() => app.fleet.state === 'starting');
  await app.fleet.stop();
  await swapped;
  assert.deepEqual([app.fleet.state, app.fleet.liveDeployId], ['stopped', 'release-2']);
});
