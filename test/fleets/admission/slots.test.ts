import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Slots, StartRefused } from '../../../runtime/fleets/admission/slots.ts';

/** Work that records its start and ends when it is released. */
function jobs(slots: Slots) {
  const begun: string[] = [];
  const run = (name: string, signal = new AbortController().signal, who = { owner: 'one' }) => {
    const gate = Promise.withResolvers<void>();
    const done = slots.run(
      who,
      () => {
        begun.push(name);
        return gate.promise;
      },
      signal,
    );
    done.catch(() => {});
    return { done, end: gate.resolve, fail: gate.reject };
  };
  return { begun, run };
}

/** Lets all pending callbacks run. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('the limit of tasks run at once, the others in order of arrival, however earlier ones ended', async () => {
  const { begun, run } = jobs(new Slots(2, 10_000));
  const [a, b] = [run('a'), run('b')];
  const [c, d, e] = [run('c'), run('d'), run('e')];
  await settled();
  assert.deepEqual(begun, ['a', 'b']);
  b.fail(new Error('no'));
  await assert.rejects(b.done, { message: 'no' });
  await settled();
  assert.deepEqual(begun, ['a', 'b', 'c']);
  for (const job of [a, c, d, e]) {
    job.end();
    await job.done;
    await settled();
  }
  assert.deepEqual(begun, ['a', 'b', 'c', 'd', 'e']);
});

test('a task that stops waiting frees its place for the next one', async () => {
  const { begun, run } = jobs(new Slots(1, 10_000));
  const first = run('first');
  const leaver = new AbortController();
  const leaving = run('leaving', leaver.signal);
  const next = run('next');
  leaver.abort(new Error('gone'));
  await assert.rejects(leaving.done, { message: 'gone' });
  first.end();
  await settled();
  assert.deepEqual(begun, ['first', 'next']);
  next.end();
  await next.done;
  await assert.rejects(run('late', leaver.signal).done, { message: 'gone' });
});

test('a task whose turn comes too late fails and frees its place', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { begun, run } = jobs(new Slots(1, 20));
  const first = run('first');
  const late = run('late');
  t.mock.timers.tick(20);
  await assert.rejects(late.done, StartRefused);
  first.end();
  await first.done;
  const next = run('next');
  await settled();
  assert.deepEqual(begun, ['first', 'next']);
  next.end();
});

test('starts that hang give up their turns to others, within a limit', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { begun, run } = jobs(new Slots(1, 10_000, 20));
  const hanging = Array.from({ length: 5 }, (_, i) => run(`hangs ${i}`));
  const good = run('good');
  for (let turn = 0; turn < 10; turn++) {
    t.mock.timers.tick(20);
    await settled();
  }
  assert.equal(begun.length, 5);
  assert.ok(!begun.includes('good'), 'four go on, the fifth keeps the only turn');
  hanging[4]!.end();
  await settled();
  assert.ok(begun.includes('good'));
  for (const job of [...hanging, good]) {
    job.end();
    await job.done;
  }
});

test('tasks whose last start failed or was slow come after the others', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { begun, run } = jobs(new Slots(1, 60_000, 500));
  const [bad, slow] = [{ owner: 'one' }, { owner: 'one' }];
  const failing = run('bad', undefined, bad);
  failing.fail(new Error('no'));
  await assert.rejects(failing.done);
  const long = run('slow', undefined, slow);
  const after = run('after');
  await settled();
  t.mock.timers.tick(500);
  await settled();
  assert.ok(begun.includes('after'));
  long.end();
  await long.done;
  const again = [run('bad again', undefined, bad), run('slow again', undefined, slow), run('good')];
  after.end();
  for (const job of [again[2]!, again[0]!, again[1]!]) {
    await settled();
    job.end();
    await job.done;
  }
  assert.deepEqual(begun.slice(-3), ['good', 'bad again', 'slow again']);
  const well = [run('holds'), run('x', undefined, bad), run('y')];
  for (const job of well) {
    job.end();
    await job.done;
  }
  assert.deepEqual(begun.slice(-3), ['holds', 'x', 'y'], 'a start that went well makes up for it');
});

test('eight hanging starts of one account do not delay another account', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { begun, run } = jobs(new Slots(4, 60_000, 50_000, 20));
  const hanging = Array.from({ length: 8 }, (_, i) => run(`hangs ${i}`));
  const other = run('other', undefined, { owner: 'another' });
  await settled();
  t.mock.timers.tick(20);
  await settled();
  assert.ok(begun.includes('other'));
  assert.equal(begun.length, 5, 'the account has no more turns for it');
  for (const job of [other, ...hanging]) {
    job.end();
    await job.done;
  }
});

test('an account gets a turn while another has the maximum of long starts', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { begun, run } = jobs(new Slots(1, 60_000, 5, 5));
  const hanging = Array.from({ length: 8 }, (_, i) => run(`hangs ${i}`));
  for (let turn = 0; turn < 10; turn++) {
    t.mock.timers.tick(5);
    await settled();
  }
  assert.equal(begun.length, 5);
  const other = run('other', undefined, { owner: 'another' });
  await settled();
  t.mock.timers.tick(5);
  await settled();
  assert.ok(begun.includes('other'));
  assert.equal(begun.length, 6);
  for (const job of [other, ...hanging]) {
    job.end();
    await job.done;
  }
});

test('accounts take turns, whichever has the most starts', async () => {
  const { begun, run } = jobs(new Slots(2, 60_000));
  const many = Array.from({ length: 4 }, (_, i) => run(`many ${i}`));
  const few = run('few', undefined, { owner: 'another' });
  many[0]!.end();
  await many[0]!.done;
  await settled();
  assert.deepEqual(begun, ['many 0', 'many 1', 'few']);
  for (const job of [few, ...many]) {
    job.end();
    await job.done;
  }
});
