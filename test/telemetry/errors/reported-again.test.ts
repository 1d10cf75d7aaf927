// An error that is reported twice, for example by a Durable Object and by its caller, is counted once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { large, openErrors } from '../../support/telemetry/errors.ts';

const APP = 'app1';
const OTHER = 'app2';

test('an error whose occurrence was evicted is counted once when it is reported again', async (t) => {
  const { errors, reportOne, list, occurrences } = openErrors(t, { appBytes: 0 });
  await reportOne(APP, { id: 'a', method: null, path: null });
  errors.flush();
  assert.deepEqual(await occurrences(APP), [[]]);
  await reportOne(APP, { id: 'a' });
  const [{ count, sparkline }] = (await list(APP)) as [Awaited<ReturnType<typeof list>>[0]];
  assert.deepEqual([count, sparkline.reduce((sum, each) => sum + each)], [1, 1]);
});

test('a repeated report of an error whose occurrence is gone changes no other one, of its own app or another', async (t) => {
  const { errors, reportOne, occurrences } = openErrors(t, { appBytes: 5_000 });
  await reportOne(APP, { id: 'a', ...large });
  errors.flush();
  assert.deepEqual(await occurrences(APP), [[]]);
  await reportOne(OTHER, { id: 'a', path: '/secret' });
  errors.flush();
  await reportOne(APP, { id: 'b', type: 'Small', path: '/own' });
  errors.flush();
  await reportOne(APP, { id: 'a', path: '/made/up' });
  const paths = async (appId: string) => (await occurrences(appId)).flat().map(({ path }) => path);
  assert.deepEqual([await paths(OTHER), await paths(APP)], [['/secret'], ['/own']]);
});

test("an app that reports errors endlessly makes no other app's error count twice", async (t) => {
  const { errors, reportOne, list } = openErrors(t);
  await reportOne(OTHER, { id: 'a' });
  for (let n = 0; n < 5_000; n++) errors.report(told(APP, String(n)));
  errors.flush();
  await reportOne(OTHER, { id: 'a' });
  assert.equal((await list(OTHER))[0]!.count, 1);

  function told(appId: string, id: string) {
    const error = { id, type: 'E', message: 'm', stack: null, mechanism: null, untold: 0 };
    const where = { handler: null, method: null, path: null };
    return { appId, release: null, at: Date.now(), traceId: null, error: { ...error, ...where } };
  }
});

test('errors that could not be written count once at the retry, however often they were reported', async (t) => {
  const { errors, reportOne, list, refuse } = openErrors(t);
  await reportOne(APP);
  errors.flush();
  refuse('Refused');
  await reportOne(APP, { id: 'a' });
  await reportOne(APP, { id: 'a' });
  await reportOne(APP, { id: 'b', type: 'Refused' });
  assert.throws(() => errors.flush(), /refused/);
  await reportOne(APP, { id: 'a' });
  assert.throws(() => errors.flush(), /refused/);
  refuse(null);
  await reportOne(APP, { id: 'b', type: 'Refused' });
  const counts = (await list(APP)).map(({ kind, count }) => [kind, count]);
  assert.deepEqual(new Set(counts.map(String)), new Set(['Error,2', 'Refused,1']));
});

test('an error of a removed group counts as new', async (t) => {
  const { errors, reportOne, list } = openErrors(t);
  await reportOne(APP, { id: 'a' });
  errors.flush();
  while (errors.forget(OTHER) || errors.prune(Date.now() + 31 * 86_400_000));
  assert.deepEqual(await list(APP), []);
  await reportOne(APP, { id: 'a' });
  assert.equal((await list(APP))[0]!.count, 1);
});
