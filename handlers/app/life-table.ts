// An app's life as a state machine: the next state and the effects for each state and event.
import type { Mark } from '../contract/apps/life.ts';

/** `parking` and `waking` last while the host carries them out. They exist only in the memory of the app's object. */
export type State = 'awake' | 'parking' | 'asleep' | 'waking' | 'stopped';

/**
 * Events of an app. `start` and `stop` change the desired state. A person asks for `sleep`; the periodic `sweep` may put an
 * unused app to sleep. `wake` comes from a waiting request, and `deploy` comes before a new release. When the host is done, the
 * event is `reached`, or `failed` when the app does not serve.
 */
export type LifeEvent = 'start' | 'stop' | 'sleep' | 'sweep' | 'wake' | 'deploy' | 'reached' | 'failed';

/** What a decision depends on besides the state. */
export interface Facts {
  /** Whether a release is live. */
  deployed: boolean;
  /** Whether a deploy is queued or being built. */
  deploying: boolean;
  /** Whether the app was unused within the window of the sweep, and has no open requests or connections. */
  quiet: boolean;
}

/** Effects, in order: marks are written to the app's row, `send` sends the host the whole wanted state. */
export type Effect = Mark | 'send';

/**
 * `to` and its effects. `join`: the transition under way does what was asked for, and its result is the answer. `wait`: ask
 * again when the transition under way has ended. `refuse`: the event is not possible, and why.
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
    // The host asks for a wake only while it believes that the app is asleep.
    wake: go('stopped', 'send'),
    deploy: go('stopped'),
    reached: go('stopped'),
    failed: go('stopped'),
  },
};

/** Returns the decision for `event` in `state`. */
export function decide(state: State, event: LifeEvent, facts: Facts): Decision {
  const rule = table[state][event];
  return typeof rule === 'function' ? rule(facts) : rule;
}
