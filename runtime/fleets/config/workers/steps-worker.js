// Counts Workflow work for the host, and reports errors in steps. workerd's Workflows engine calls `run()`, which calls the
// engine for each step. In between, an instance works or waits.

import { NonRetryableError } from 'cloudflare:workflows';
import { enter, nestedEvent } from './cellar-capture.js';

/** Steps of an instance between two pauses. */
const STEPS_AT_ONCE = 10;
const { scheduler } = globalThis;

/**
 * Longest time that work keeps the process, in ms. If the process then ends, the engine retries the step in the next one.
 */
const WORK_LIMIT_MS = 30 * 60 * 1000;
/** The engine's error for a step of a run that the engine has ended, for a long wait or together with the instance. */
const ENDED = /\bWorkflowAbortedError: /;
const STEPS = ['do', 'sleep', 'sleepUntil', 'waitForEvent'];

/** The prototypes whose `run()` is counted. */
const counted = new Set();

/**
 * Makes a class of Workflows count its work. The prototype is changed in place, where the engine finds `run()`.
 * @param begin begins work with a time limit, and returns a function that ends it
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
          // The engine has ended this run, which is not a failure.
          if (error?.remote !== true || !ENDED.test(`${error.name}: ${error.message}`)) throw error;
        } finally {
          work.end();
        }
      },
    }.run,
  });
  return main;
}

/** Tracks whether a run executes the app's code. It does not while it only waits for steps, such as a sleep. */
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

  /** Counts a step for which the run waits, until `result` settles. @returns `result` */
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

  /** Runs the app's code of a step. */
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

/** The steps for `run()`. Each step's code runs as an event of the app. */
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
  // workerd accepts new requests only when idle. A timer makes it idle between steps that wait for nothing.
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

/** Throws a step's error. The engine knows a NonRetryableError only by its name, so one with another name is wrapped. */
function rethrow(error) {
  if (!(error instanceof NonRetryableError) || error.name === 'NonRetryableError') throw error;
  const known = new NonRetryableError(`${error.name}: ${error.message}`);
  known.stack = error.stack;
  throw known;
}
