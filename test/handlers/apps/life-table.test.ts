// The table of an app's life in whole: every state, every event, all that decides besides.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Decision,
  decide,
  type Effect,
  type LifeEvent,
  type State,
} from '../../../handlers/app/life-table.ts';

const STATES: State[] = ['awake', 'parking', 'asleep', 'waking', 'stopped'];
const EVENTS: LifeEvent[] = ['start', 'stop', 'sleep', 'sweep', 'wake', 'deploy', 'reached', 'failed'];
const TRANSIENT: State[] = ['parking', 'waking'];
/** What the app's row says in each state: whether it is to run, and whether it sleeps. */
const ROWS: Record<State, { stopped: boolean; asleep: boolean }> = {
  awake: { stopped: false, asleep: false },
  parking: { stopped: false, asleep: true },
  asleep: { stopped: false, asleep: true },
  waking: { stopped: false, asleep: false },
  stopped: { stopped: true, asleep: false },
};
/** What each mark makes of the row. */
const MARKS: Record<Exclude<Effect, 'send'>, { stopped?: boolean; asleep: boolean }> = {
  mark_asleep: { asleep: true },
  mark_awake: { asleep: false },
  mark_asleep_again: { asleep: true },
  mark_running: { stopped: false, asleep: false },
  mark_stopped: { stopped: true, asleep: false },
};

/** Each case of the table, with the fact that it stands for. */
const cases = STATES.flatMap((state) =>
  EVENTS.flatMap((event) =>
    [0, 1, 2, 3, 4, 5, 6, 7].map((bits) => {
      const facts = { deployed: (bits & 1) > 0, deploying: (bits & 2) > 0, quiet: (bits & 4) > 0 };
      const name = `${event} while ${state}, ${JSON.stringify(facts)}`;
      return { state, event, facts, name, decision: decide(state, event, facts) };
    }),
  ),
);
const goes = cases.flatMap(({ decision, ...rest }) => (isGo(decision) ? [{ ...rest, ...decision }] : []));

function isGo(decision: Decision): decision is { to: State; effects: readonly Effect[] } {
  return typeof decision === 'object' && 'to' in decision;
}

test('what is written is what the new state means, it is sent, and nothing else is written', () => {
  for (const { state, to, effects, name } of goes) {
    const marks = effects.filter((effect) => effect !== 'send');
    assert.ok(marks.length <= 1, name);
    assert.equal(marks.length + Number(effects.includes('send')), effects.length, name);
    if (marks.length > 0)
      assert.equal(effects.at(-1), 'send', `${name}: a mark that the host is not told of`);
    const row = { ...ROWS[state], ...marks.map((mark) => MARKS[mark])[0] };
    assert.deepEqual(row, ROWS[to], name);
    if (TRANSIENT.includes(to) && to !== state)
      assert.ok(effects.includes('send'), `${name}: nothing would end it`);
  }
});

test('a stopped app only starts, and anything else leaves it as it is', () => {
  for (const { event, to, name, effects } of goes.filter(({ state }) => state === 'stopped')) {
    assert.equal(to, event === 'start' ? 'awake' : 'stopped', name);
    if (event !== 'start') assert.ok(!effects.some((effect) => effect !== 'send'), name);
  }
  for (const { name, to } of goes.filter(({ event }) => event === 'stop')) assert.equal(to, 'stopped', name);
  const refusing = cases.filter(({ event, decision }) => event === 'stop' && !isGo(decision));
  assert.deepEqual(refusing, [], 'a stop is never refused and waits for nothing');
});

test('an app is put to sleep only when it is deployed, no deploy is under way, and it is asked for or quiet', () => {
  const parks = goes.filter(({ state, to }) => state !== 'parking' && to === 'parking');
  for (const { state, event, facts, name } of parks) {
    assert.equal(state, 'awake', name);
    assert.ok(facts.deployed && !facts.deploying, name);
    assert.ok(event === 'sleep' || (event === 'sweep' && facts.quiet), name);
  }
  assert.equal(parks.length, 3);
});

test('a sleeping app wakes for a wake, a start and a deploy, and for nothing else', () => {
  for (const { state, event, to, name } of goes.filter(({ state }) => ROWS[state].asleep)) {
    const wakes = !ROWS[to].asleep && to !== 'stopped';
    assert.equal(wakes, state === 'asleep' && ['wake', 'start', 'deploy'].includes(event), name);
  }
  for (const { to, name } of goes.filter(({ event }) => event === 'deploy'))
    assert.ok(!ROWS[to].asleep, name);
});

test('sleep and wake that conflict are refused; a request and a deploy never are', () => {
  const refused = (state: State, event: LifeEvent) => {
    const decision = decide(state, event, { deployed: true, deploying: false, quiet: true });
    return typeof decision === 'object' && 'refuse' in decision;
  };
  assert.ok(refused('waking', 'sleep'));
  assert.ok(refused('parking', 'start'));
  assert.ok(refused('stopped', 'sleep'));
  for (const { event, name, decision } of cases) {
    if (isGo(decision) || typeof decision === 'string') continue;
    assert.ok(event === 'sleep' || event === 'start', name);
    assert.match(decision.refuse, /^[A-Z].*\.$/, name);
  }
});

test('what the host carries out ends, and only then is it waited for or joined', () => {
  for (const { state, event, name, decision } of cases) {
    if (decision === 'join' || decision === 'wait') assert.ok(TRANSIENT.includes(state), name);
    if (event !== 'reached' && event !== 'failed') continue;
    assert.ok(isGo(decision), name);
    assert.ok(!TRANSIENT.includes(decision.to), `${name}: it ends`);
    if (!TRANSIENT.includes(state))
      assert.deepEqual(decision, { to: state, effects: [] }, `${name}: nothing to end`);
  }
});
