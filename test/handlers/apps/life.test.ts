// The control plane's app transitions against a host, with all possible events in random orders.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import * as fc from 'fast-check';
import { type ControlCode, loadControl, MemoryD1 } from '../../support/handlers/control-in-process.ts';
import { settled } from '../../support/handlers/life-pool.ts';
import { World } from '../../support/handlers/life-world.ts';
import { randomCases } from '../../support/random.ts';

let code: ControlCode;
const database = new MemoryD1();
before(async () => {
  code = await loadControl();
  const db = database.through(async (work) => work());
  await code.migrate(db);
  await code.ensureFirstAccount(
    db,
    { id: 'owner', name: 'owner', at: '' },
    { id: 'key', name: '', hash: '' },
  );
});
after(() => database.close());

const API = ['start', 'stop', 'sleep'] as const;
const named = <Name extends string>(...names: Name[]) =>
  fc.constantFrom(...names).map((name) => ({ do: name }));
const events = fc.oneof(
  { weight: 40, arbitrary: fc.constantFrom(...API).map((event) => ({ do: 'call' as const, event })) },
  { weight: 25, arbitrary: named('request') },
  { weight: 25, arbitrary: named('push', 'sweep', 'break', 'mend', 'crashApp') },
  { weight: 10, arbitrary: named('crashControl', 'crashHost') },
  { weight: 10, arbitrary: fc.nat(30).map((choice) => ({ do: 'lose' as const, choice })) },
  { weight: 1, arbitrary: named('crowd') },
);
type Event = typeof events extends fc.Arbitrary<infer Value> ? Value : never;

/** Events, each after a number of pending steps, and the order in which pending steps run. */
interface Program {
  deployed: boolean;
  steps: [number, Event][];
  order: number[];
}
const programs: fc.Arbitrary<Program> = fc.record({
  deployed: fc.boolean(),
  steps: fc.array(fc.tuple(fc.nat(9), events), { minLength: 1, maxLength: 16 }),
  order: fc.array(fc.nat(9), { minLength: 1, maxLength: 24 }),
});

const call = (event: (typeof API)[number]) => ({ do: 'call' as const, event });
const request = { do: 'request' as const };
const push = { do: 'push' as const };
const sweep = { do: 'sweep' as const };
const crowd = { do: 'crowd' as const };
/** Programs that failed once. Each comment says what happened then. */
const known: Program[] = [
  // The database failed when a sleep had ended: a deploy waited for the end of the sleep for ever.
  {
    deployed: true,
    steps: [
      [0, sweep],
      [5, push],
      [5, { do: 'lose', choice: 0 }],
    ],
    order: [0],
  },
  // The full queue refused the end of a sleep: a deploy waited for the end of the sleep for ever.
  {
    deployed: true,
    steps: [
      [0, call('sleep')],
      [5, crowd],
      [9, request],
    ],
    order: [0],
  },
  // The full queue refused a wake: the request that needed the wake failed.
  {
    deployed: true,
    steps: [
      [0, push],
      [3, call('sleep')],
      [2, push],
      [7, crowd],
      [1, request],
    ],
    order: [3],
  },
  // The app was stopped while it went to sleep. The host did not know, and refused a request: the wake was impossible.
  {
    deployed: true,
    steps: [
      [0, sweep],
      [0, call('stop')],
      [7, request],
      [0, push],
    ],
    order: [0],
  },
  // Two later transitions reached the host before an earlier one: the host refused the earlier one.
  {
    deployed: false,
    steps: [
      [0, call('stop')],
      [2, call('start')],
      [7, request],
      [5, call('start')],
      [0, call('sleep')],
      [0, push],
    ],
    order: [7],
  },
  // A deploy replaced the release that had just been woken: the wake counted as failed, and the app slept again.
  {
    deployed: true,
    steps: [
      [0, sweep],
      [6, request],
      [5, push],
      [0, call('start')],
    ],
    order: [4, 3, 2, 0, 2],
  },
];

async function happen(world: World, event: Event): Promise<void> {
  if (event.do === 'call') world.call(event.event);
  else if (event.do === 'lose') await world.lose(event.choice);
  else if (event.do === 'crowd') for (let n = 0; n < 20; n++) world.call('sleep');
  else world[event.do]();
  await settled();
}

let apps = 0;
async function run({
  deployed,
  steps,
  order,
}: {
  deployed: boolean;
  steps: [number, Event][];
  order: number[];
}) {
  const world = new World(code, database, String(++apps).padStart(16, '0'));
  let taken = 0;
  const choose = () => order[taken++ % order.length]!;
  try {
    await world.create(deployed);
    for (const [turns, event] of steps) {
      for (let turn = 0; turn < turns && world.waiting > 0; turn++) {
        await world.take(choose());
        holdsAlways(world);
      }
      await happen(world, event);
    }
    world.mend();
    await world.drain(choose);
    await world.reconcile(choose);
    agrees(world);
    answered(world);
    await works(world);
  } finally {
    world.remove();
  }
}

const TOO_MANY = /^Too many changes wait/;

/** Asserts what must be true after every step. */
function holdsAlways(world: World): void {
  const { desired_state, asleep_since } = world.row;
  assert.ok(desired_state === 'running' || asleep_since === null, 'a stopped app sleeps');
}

/** Asserts that both planes hold the same state, and that the process matches it. */
function agrees({ row, host }: World): void {
  const { wanted, live } = host.database;
  assert.deepEqual(
    [wanted!.generation, wanted!.desired_state, host.database.asleepSince, host.database.wokeAt],
    [row.generation, row.desired_state, row.asleep_since, row.woke_at],
  );
  const { process_state, generation, live_deploy_id } = host.observe();
  assert.deepEqual(
    [row.process_state, row.live_deploy_id, row.generation],
    [process_state, live_deploy_id, generation],
  );
  const resting =
    row.desired_state === 'stopped' ? 'stopped' : row.asleep_since === null ? 'running' : 'idle';
  assert.equal(host.process, live === null ? 'none' : resting);
}

/** Asserts that every call and request has an answer, and that each refusal is justified. */
function answered({ calls, requests }: World): void {
  for (const { event, outcome, troubled } of calls) {
    assert.ok(outcome !== null, `${event} has no answer`);
    if (outcome === 'cut' || outcome instanceof Error) assert.ok(troubled, `${event}: ${outcome}`);
    else if (!outcome.ok && outcome.code !== 'transition_conflict')
      assert.ok(troubled, `${event}: ${outcome.detail}`);
    else if (!outcome.ok && !TOO_MANY.test(outcome.detail))
      assert.ok(['sleep', 'start'].includes(event), `${event}: ${outcome.detail}`);
  }
  for (const { request, troubled } of requests) {
    assert.ok(request.answer !== null, 'a request has no answer');
    const anyway = ['served', 'stopped', 'crashed', 'never deployed'].includes(request.answer);
    assert.ok(anyway || troubled, `a request was answered: ${request.answer}`);
  }
}

/** Asserts that no leftover state keeps the app from sleeping, waking or stopping. */
async function works(world: World): Promise<void> {
  const before = { calls: world.calls.length, requests: world.requests.length };
  for (const event of ['start', 'sleep', 'request', 'stop', 'request'] as const) {
    if (event === 'request') world.request();
    else world.call(event);
    await settled();
    await world.drain(() => 0);
    agrees(world);
  }
  const outcomes = world.calls
    .slice(before.calls)
    .map(({ outcome }) => outcome !== null && 'ok' in Object(outcome));
  assert.deepEqual(outcomes, [true, true, true]);
  const deployed = world.host.database.live !== null;
  const answers = world.requests.slice(before.requests).map(({ request }) => request.answer);
  assert.deepEqual(answers, deployed ? ['served', 'stopped'] : ['never deployed', 'never deployed']);
}

test('in any order of events every call is answered and both planes agree', async (t) => {
  t.mock.method(console, 'error', () => {});
  await fc.assert(fc.asyncProperty(programs, run), {
    ...randomCases(800),
    examples: known.map((program) => [program]),
  });
});
