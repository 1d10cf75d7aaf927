// The life of an app as one table: what each event makes of each state, and what has to be done for it.
import type { Mark } from '../contract/apps/life.ts';

/** `parking` and `waking` last while the host carries them out; only the app's object knows that they do. */
export type State = 'awake' | 'parking' | 'asleep' | 'waking' | 'stopped';

/**
 * What may happen to an app. `start` and `stop` set what is desired; `sleep` is asked for, `sweep` is offered to an app
 * that nobody calls; `wake` is for a request that waits; `deploy` comes before a new release. The host ends what it
 * carries out with `reached`, or with `failed` when the app does not serve.
 */
export type LifeEvent = 'start' | 'stop' | 'sleep' | 'sweep' | 'wake' | 'deploy' | 'reached' | 'failed';

/** What decides besides the state. */
export interface Facts {
  /** Whether a release is live. */
  deployed: boolean;
  /** Whether a deploy is queued or being built. */
  deploying: boolean;
  /** Whether nobody has used it within the window of the sweep, and nothing is open. */
  quiet: boolean;
}

/** What to do, in this order: marks are written to the app's row, `send` sends the host the whole wanted state. */
export type Effect = Mark | 'send';

/**
 * `to` and its effects. `join`: what is under way is what was asked for, and its end is the answer. `wait`: ask again when
 * what is under way has ended. `refuse`: it cannot be, and why.
 */
export type Decision = { to: State; effects: readonly Effect[] } | 'join' | 'wait' | { refuse: string };

type Rule = Decision | ((facts: Facts) => Decision);

const go = (to: State, ...effects: Effect[]): Decision => ({ to, effects });
const refuse = (why: string): Decision => ({ refuse: why });

const park = go('parking', 'mark_asleep', 'send');
const wake = go('waking', 'mark_awake', 'send');
const stop = go('stopped', 'mark_stopped', 'send');

const parkIfItMay: Rule = ({ deployed, deploying }) => {
  if (!deployed) return refuse('Nothing has been deployed yet, so there is nothing to put to sleep.');
  return deploying ? refuse('A deploy is under way; put the app to sleep when it has ended.') : park;
};
const parkIfQuiet: Rule = ({ deployed, deploying, quiet }) =>
  deployed && !deploying && quiet ? park : go('awake');

const table: Record<State, Record<LifeEvent, Rule>> = {
  awake: {
    start: go('awake', 'send'),
    stop,
    sleep: parkIfItMay,
    sweep: parkIfQuiet,
    wake: go('awake', 'send'),
    deploy: go('awake'),
    reached: go('awake'),
    failed: go('awake'),
  },
  parking: {
    start: refuse('The app is being put to sleep.'),
    stop,
    sleep: 'join',
    sweep: 'join',
    wake: 'wait',
    deploy: 'wait',
    reached: go('asleep'),
    failed: go('asleep'),
  },
  asleep: {
    start: wake,
    stop,
    sleep: go('asleep'),
    sweep: go('asleep'),
    wake,
    deploy: go('awake', 'mark_awake', 'send'),
    reached: go('asleep'),
    failed: go('asleep'),
  },
  waking: {
    start: 'join',
    stop,
    sleep: refuse('The app is being woken.'),
    sweep: go('waking'),
    wake: 'join',
    deploy: go('awake'),
    reached: go('awake'),
    failed: go('asleep', 'mark_asleep_again', 'send'),
  },
  stopped: {
    start: go('awake', 'mark_running', 'send'),
    stop: go('stopped', 'send'),
    sleep: refuse('The app is stopped; only a running app can be put to sleep.'),
    sweep: go('stopped'),
    // The host asks for it only while it thinks that the app sleeps.
    wake: go('stopped', 'send'),
    deploy: go('stopped'),
    reached: go('stopped'),
    failed: go('stopped'),
  },
};

/** What `event` makes of an app in `state`. */
export function decide(state: State, event: LifeEvent, facts: Facts): Decision {
  const rule = table[state][event];
  return typeof rule === 'function' ? rule(facts) : rule;
}
