// How the host knows that an app's Workflows are at work, and of the errors in their steps. The engine calls `run()`, and
// that calls the engine for each step: between the two, an instance is at work or waits.

import { NonRetryableError } from 'cloudflare:workflows';
import { enter, nestedEvent } from './cellar-capture.js';

/** Steps between two pauses of an instance. */
const STEPS_AT_ONCE = 10;
const { scheduler } = globalThis;

/** What runs longer keeps no process: its step is tried again when the engine finds that it has gone. */
const WORK_LIMIT_MS = 30 * 60 * 1000;
/** The engine's error for a step of a run that it has ended, for the instance rests or was ended. */
const ENDED = /\bWorkflowAbortedError: /;
const STEPS = ['do', 'sleep', 'sleepUntil', 'waitForEvent'];

/** The prototypes whose `run()` is counted. */
const counted = new Set();

/**
 * Has a class of Workflows tell when it is at work. It is done in place: the engine finds `run()` on the prototype.
 * @param begin begins work that counts for a time at most, and returns what ends it
 */
export function withSteps(main, begin) {
  let owner = main?.prototype;
  while (owner && !Object.hasOwn(owner, 'run')) owner = Object.getPrototypeOf(owner);
  const described = owner && Object.getOwnPropertyDescriptor(owner, 'run');
  if (typeof described?.value !== 'function' || !described.configurable || counted.has(owner)) return main;
  counted.add(owner);
  const { value: run } = described;
  Object.defineProperty(owner, 'run', {
    ...described,
    value: {
      async run(event, step) {
        const work = new Work(begin);
        try {
          return await run.call(this, event, stepsOf(step, work, this.constructor.name));
        } catch (error) {
          // Nobody waits for this run any more, and nothing in it has failed.
          if (error?.remote !== true || !ENDED.test(`${error.name}: ${error.message}`)) throw error;
        } finally {
          work.end();
        }
      },
    }.run,
  });
  return main;
}

/** Whether a run is at work: it is unless it waits for steps, none of which runs the app's code. */
class Work {
  #begin;
  #steps = 0;
  #running = 0;
  #over = false;
  #stop = null;

  constructor(begin) {
    this.#begin = begin;
    this.#look();
  }

  /** The run waits for a step. @returns what says that it has that */
  step(result) {
    this.#steps++;
    const end = () => {
      this.#steps--;
      this.#look();
    };
    this.#look();
    result.then(end, end);
    return result;
  }

  /** Runs what a step has of the app's code. */
  async run(use) {
    this.#running++;
    this.#look();
    try {
      return await use();
    } finally {
      this.#running--;
      this.#look();
    }
  }

  end() {
    this.#over = true;
    this.#look();
  }

  #look() {
    const busy = this.#running > 0 || (!this.#over && this.#steps === 0);
    if (busy) this.#stop ??= this.#begin(WORK_LIMIT_MS, true);
    else {
      this.#stop?.();
      this.#stop = null;
    }
  }
}

/** The steps that `run()` takes, the code of each as an event of the app's. */
function stepsOf(step, work, className) {
  const eventFor = nestedEvent();
  const watched = (name, call) =>
    typeof call === 'function'
      ? (...values) => {
          const event = eventFor(`${className}, step ${String(name).slice(0, 256)}`);
          return work.run(() => enter(null, call, undefined, values, event)).catch(rethrow);
        }
      : call;
  let ended = 0;
  // workerd looks for new requests only when nothing else is to be done. A timer lets it, between steps that wait for nothing.
  const pause = () => (++ended % STEPS_AT_ONCE === 0 ? scheduler.wait(0) : undefined);
  const paused = (result) =>
    result.then(
      async (value) => {
        await pause();
        return value;
      },
      async (error) => {
        await pause();
        throw error;
      },
    );
  const taken = {
    do: (name, ...rest) =>
      work.step(
        paused(
          step.do(
            name,
            ...rest.map((each) =>
              typeof each?.rollback === 'function'
                ? { ...each, rollback: watched(name, each.rollback) }
                : watched(name, each),
            ),
          ),
        ),
      ),
  };
  for (const method of STEPS) taken[method] ??= (...values) => work.step(step[method](...values));
  return new Proxy(step, {
    get: (target, name) => (Object.hasOwn(taken, name) ? taken[name] : target[name]),
  });
}

/** Throws an error of a step. The engine knows a NonRetryableError by its name alone, so one of another name is wrapped. */
function rethrow(error) {
  if (!(error instanceof NonRetryableError) || error.name === 'NonRetryableError') throw error;
  const known = new NonRetryableError(`${error.name}: ${error.message}`);
  known.stack = error.stack;
  throw known;
}
