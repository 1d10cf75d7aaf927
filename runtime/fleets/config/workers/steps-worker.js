// Counts Workflow work for the host, and reports errors in steps. workerd's Workflows engine calls the app's `run()`, which
// calls the engine for each step. An instance that only waits for a step, such as a sleep, does not count.

import { NonRetryableError } from 'cloudflare:workflows';
import { enter, nestedEvent } from './cellar-capture.js';

/** Number of steps of an instance between two pauses. */
const STEPS_AT_ONCE = 10;
const { scheduler } = globalThis;

/** Longest time that work keeps the process, in ms. If the process ends later, the engine retries the step in a new one. */
const WORK_LIMIT_MS = 30 * 60 * 1000;
/** The engine's error for a step when the engine has ended its run, because of a long wait or with the whole instance. */
const ENDED = /\bWorkflowAbortedError: /;
const STEPS = ['do', 'sleep', 'sleepUntil', 'waitForEvent'];

/** The prototypes whose `run()` was wrapped. */
const counted = new Set();

/**
 * Makes a class of Workflows count its work. Changes the prototype itself, because the engine finds `run()` there.
 * @param begin adds a task with a time limit, and returns a function that ends it
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

/**
 * Counts a run as a task while it executes the app's code. A run that only waits for steps, such as a sleep, does not count.
 */
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

  /** Calls the app's code of a step, and counts it until it ends. */
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

/** Returns the argument `step` of `run()`. The app's code of each step runs as an event. */
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
  // workerd accepts new requests only when its event loop is idle. A timer makes it idle between steps that need no I/O.
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

/**
 * Throws a step's error. The engine recognises a NonRetryableError only by its name, so one with another name is wrapped.
 */
function rethrow(error) {
  if (!(error instanceof NonRetryableError) || error.name === 'NonRetryableError') throw error;
  const known = new NonRetryableError(`${error.name}: ${error.message}`);
  known.stack = error.stack;
  throw known;
}
