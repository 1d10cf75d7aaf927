// What the API reports of apps whose processes crash, are killed for their memory use, or do not start. For an endless
// loop, which takes long to detect, `hostile-apps.test.ts` checks the same.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/processes.ts';

/** A Worker that exceeds its memory limit, but only by a bounded amount. */
const WORKER = `const kept = [];
export default { async fetch(request) {
  const { pathname } = new URL(request.url);
  if (pathname === '/eat') {
    for (let i = 0; i < 50; i++) { kept.push(new Uint8Array(4 << 20).fill(1)); await scheduler.wait(5); }
    await scheduler.wait(20_000);
  }
  return new Response('ok');
} }`;
const NOT_LOADING = `function connect(): never {
  throw new RangeError('no settings ' + 17);
}
connect();
export default { fetch: () => new Response('never') };
`;

interface Group {
  fingerprint: string;
  kind: string;
  message: string;
  place: string | null;
  mechanism: string;
  handler: string | null;
  count: number;
  last_release: string | null;
}

const cellar = new Cellar({ RUNNER_CELL_MAX_MB: '128' });
let id: string;
before(async () => {
  await cellar.start();
  id = await cellar.deploy('crashing', 'hello', { 'index.js': WORKER });
});
after(() => cellar[Symbol.asyncDispose]());

async function rpc<Result>(method: string, params: Record<string, unknown>): Promise<Result> {
  const asked = { jsonrpc: '2.0', id: 1, method, params: { id, ...params } };
  const { body } = await cellar.call('POST', '/rpc', asked);
  assert.ok(body.result !== undefined, JSON.stringify(body));
  return body.result;
}

/** Waits for the error group whose message matches. */
async function grouped(message: RegExp): Promise<Group> {
  let found: Group | undefined;
  await eventually(async () => {
    const { items } = await rpc<{ items: Group[] }>('errors.list', { status: 'open' });
    found = items.find((group) => message.test(group.message));
    return found !== undefined;
  }, `an error is listed: ${message}`);
  return found!;
}

async function serves(): Promise<void> {
  await eventually(
    async () => (await cellar.get('crashing').catch(() => null))?.status === 200,
    'it serves',
    30_000,
  );
}

/** Asserts the fields that the error of every crash has. */
async function assertCrash({ kind, mechanism, place, handler, last_release }: Group): Promise<void> {
  const { live_deploy_id } = await cellar.app(id);
  assert.deepEqual(
    [kind, mechanism, place, handler, last_release],
    ['Crash', 'crash', null, null, live_deploy_id],
  );
}

test('kills of the process count as one error of the app', async () => {
  for (const count of [1, 2]) {
    await serves();
    const [cell] = cells(id);
    process.kill(cell!.pid, 'SIGKILL');
    await eventually(async () => (await grouped(/SIGKILL/)).count === count, `it is counted ${count} times`);
  }
  const group = await grouped(/SIGKILL/);
  assert.equal(group.message, 'workerd was ended by SIGKILL');
  await assertCrash(group);
  const { occurrences } = await rpc<{ occurrences: { release: string | null; stack: string | null }[] }>(
    'errors.get',
    { fingerprint: group.fingerprint },
  );
  assert.deepEqual(
    occurrences.map(({ release, stack }) => [release, stack]),
    Array.from({ length: 2 }, () => [group.last_release, null]),
  );
});

test('a process that exceeds its memory causes an error that names the limit', async () => {
  await serves();
  const eating = cellar.get('crashing', '/eat').catch(() => null);
  const group = await grouped(/memory/);
  assert.match(group.message, /^the app .* more (memory )?than RUNNER_CELL_MAX_MB \(128\) allows$/);
  await assertCrash(group);
  await eating;
});

test('a release that does not load causes an error with the release and the source position', async () => {
  await serves();
  const { live_deploy_id: live } = await cellar.app(id);
  const config = `name = "crashing"\nmain = "main.ts"\ncompatibility_date = "2026-10-01"\n`;
  await assert.rejects(
    cellar.deployAgain('crashing', 'hello', { 'wrangler.toml': config, 'main.ts': NOT_LOADING }),
    /no settings 17/,
  );
  const group = await grouped(/no settings/);
  assert.deepEqual(
    [group.kind, group.message, group.mechanism, group.place],
    ['RangeError', 'no settings 17', 'load', 'main.ts:2:9'],
  );
  assert.ok(group.last_release! > live, `${group.last_release} came after ${live}`);
  assert.equal((await cellar.get('crashing')).status, 200);
});
