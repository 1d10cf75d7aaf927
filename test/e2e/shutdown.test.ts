// SIGTERM during requests, builds and deploys: requests may finish, and the host ends within its drain time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, controlPlane, descendants, eventually, processes } from '../support/processes.ts';

const DRAIN_S = 6;
/** Tolerance in ms for a loaded machine. A host that waited for the trial start of a release would take 30 s. */
const SLACK_MS = 16_000;

/** Answers `/` at once and `/slow` after a second; `/never` does not end its body. */
const WORKER = `export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === '/') return new Response('here');
    const { readable, writable } = new IdentityTransformStream();
    const writer = writable.getWriter();
    const run = async () => {
      await writer.write(new TextEncoder().encode('begun '));
      if (pathname === '/never') await scheduler.wait(600_000);
      await scheduler.wait(1_000);
      await writer.write(new TextEncoder().encode('done'));
      await writer.close();
    };
    run().catch(() => {});
    return new Response(readable);
  },
};
`;

/** Sends a signal. Returns the host's exit code and how long it took to end, in ms. */
async function stopTimed(
  cellar: Cellar,
  signal: NodeJS.Signals = 'SIGTERM',
): Promise<{ code: number | null; tookMs: number }> {
  const begun = performance.now();
  const { code } = await cellar.stop(signal);
  return { code, tookMs: performance.now() - begun };
}

/** Pushes a change whose deploy never ends, and waits until `isThere`. */
async function pushEndless(
  cellar: Cellar,
  slug: string,
  files: Record<string, string>,
  isThere: () => boolean,
) {
  let ended: unknown;
  cellar.deployAgain(slug, 'hello', files).catch((error: unknown) => {
    ended = error;
  });
  const isThereYet = () => {
    if (ended !== undefined) throw ended;
    return isThere();
  };
  await eventually(isThereYet, `the deploy of ${slug} is where it does not end`);
}

const deploysOf = async (cellar: Cellar, id: string): Promise<{ status: string; error: string | null }[]> =>
  (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;

test('SIGTERM interrupts builds and trials, lets requests finish, and the next start repeats the deploys', async () => {
  await using cellar = await new Cellar({ RUNNER_DRAIN_S: String(DRAIN_S) }).start();
  const ids: Record<string, string> = {};
  for (const slug of ['serves', 'builds', 'tried'])
    ids[slug] = await cellar.deploy(slug, 'hello', { 'index.js': WORKER });
  const below = () => descendants(cellar.pid);
  await pushEndless(cellar, 'builds', { 'package.json': '{"scripts": {"build": "sleep 987654"}}' }, () =>
    below().some(({ command }) => command.includes('987654')),
  );
  await pushEndless(cellar, 'tried', { 'index.js': `for (;;);\n${WORKER}` }, () =>
    below().some(({ command }) => command.some((word) => word.includes('/run/trial-'))),
  );
  const all = below().map(({ pid }) => pid);

  const slow = await cellar.open('serves', '/slow');
  const stopping = stopTimed(cellar);
  assert.equal(await slow.text(), 'begun done');
  const { code, tookMs } = await stopping;
  assert.equal(code, 0);
  assert.ok(tookMs < DRAIN_S * 1000 + SLACK_MS, `it took ${tookMs} ms`);
  await eventually(() => !processes().some(({ pid }) => all.includes(pid)), 'every child has gone');

  await cellar.start();
  for (const slug of ['builds', 'tried']) {
    assert.equal((await cellar.get(slug)).text, 'here', 'the release before serves');
    await eventually(async () => {
      const [newest, before] = await deploysOf(cellar, ids[slug]!);
      // On a busy machine, the repeated trial may have failed by its own deadline before this looks.
      const isRepeated =
        newest?.status === 'building' ||
        (newest?.status === 'failed' && !/interrupted/.test(newest.error ?? 'interrupted'));
      return /interrupted/.test(before?.error ?? '') && isRepeated;
    }, `${slug} is deployed again`);
  }
});

test('a response that never ends is cut within the drain time, also when the control plane hangs', async () => {
  await using cellar = await new Cellar({ RUNNER_DRAIN_S: String(DRAIN_S) }).start();
  const id = await cellar.deploy('serves', 'hello', { 'index.js': WORKER });
  const never = await cellar.open('serves', '/never');
  const control = controlPlane(cellar.pid)!;
  process.kill(control.pid, 'SIGSTOP');
  // From now on the host tries to report the crash to the stopped control plane.
  process.kill(cells(id)[0]!.pid, 'SIGKILL');
  await assert.rejects(never.text());
  await eventually(async () => (await cellar.get('serves')).text === 'here', 'the app is back');
  const again = await cellar.open('serves', '/never');
  const { code, tookMs } = await stopTimed(cellar);
  assert.equal(code, 0);
  assert.ok(tookMs < DRAIN_S * 1000 + SLACK_MS, `it took ${tookMs} ms`);
  await assert.rejects(again.text());
});

test('a rollback that SIGTERM interrupts is repeated at the next start', async () => {
  await using cellar = await new Cellar({ RUNNER_DRAIN_S: String(DRAIN_S) }).start();
  const id = await cellar.deploy('back', 'hello', { 'index.js': WORKER });
  const [first] = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
  await cellar.deployAgain('back', 'hello', { 'index.js': WORKER.replace("'here'", "'there'") });
  // The serving process has a request in flight, which delays the end of the rollback.
  const never = await cellar.open('back', '/never');
  const { status } = await cellar.call('POST', `/v1/apps/${id}/rollback`, { deploy_id: first.id });
  assert.equal(status, 202);
  await eventually(async () => {
    const { body } = await cellar.call('GET', `/v1/apps/${id}/deploys?limit=1`);
    return body.items[0].steps.some(({ name }: { name: string }) => name === 'start');
  }, 'the rollback waits for what is in flight');
  await Promise.all([cellar.stop(), assert.rejects(never.text())]);

  await cellar.start();
  await eventually(
    async () => (await cellar.get('back')).text === 'here',
    'the release that was asked for serves',
  );
  const deploys = async () => (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
  await eventually(async () => (await deploys())[0].status === 'live', 'it reads as live');
  const [newest, before] = await deploys();
  assert.deepEqual([newest.trigger, newest.sha], ['rollback', first.sha]);
  assert.deepEqual([before.trigger, before.status], ['rollback', 'failed']);
  assert.match(before.error, /interrupted/);
});

for (const signal of ['SIGTERM', 'SIGHUP'] as const)
  test(`${signal} ends an event stream of the API at once, after a complete event`, async () => {
    const drainS = 120;
    await using cellar = await new Cellar({ RUNNER_DRAIN_S: String(drainS) }).start();
    const id = await cellar.create('followed');
    const { body, status } = await fetch(`${cellar.api}/v1/apps/${id}/deploys/stream`, {
      headers: { authorization: `Bearer ${cellar.token}` },
    });
    assert.equal(status, 200);
    const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
    assert.equal((await reader.read()).value, ': connected\n\n');
    const stopping = stopTimed(cellar, signal);
    assert.deepEqual(await reader.read(), { done: true, value: undefined });
    const { code, tookMs } = await stopping;
    assert.equal(code, 0);
    assert.ok(tookMs < (drainS * 1000) / 2, `it took ${tookMs} ms`);
  });
