// Crons with a field for seconds in front of the five others. workerd's `cron.js` reads the five fields, and arms each
// schedule at the start of the process. As in `cron.js`, runs of a cron never overlap. A time that passes during a run is
// skipped. All times that passed while no process ran cause one run together.
import { DurableObject, env } from 'cloudflare:workers';
import { next, parse } from 'cron.js';

const MINUTE_MS = 60_000;
/** Time limit of a run, in ms, as in workerd's module. A longer run counts as failed. */
const RUN_MS = 10 * MINUTE_MS;
/** Maximum number of repetitions of a failed run. */
const RETRIES = 6;
/** Pause before the first repetition, in ms. Each further pause is twice as long. */
const BACKOFF_MS = 30_000;

/** The times at which a cron with a field for seconds runs. @throws {Error} for a wrong field */
class Times {
  #minutes;
  #seconds;

  constructor(cron) {
    const [seconds, ...rest] = cron.split(/\s+/);
    this.#minutes = parse(rest.join(' '));
    try {
      this.#seconds = [...parse(`${seconds} * * * *`).minute].sort((one, other) => one - other);
    } catch ({ message }) {
      throw new Error(
        `cron trigger "${cron}": ${message.slice(message.indexOf('minute')).replace('minute', 'second')}`,
      );
    }
  }

  /** Returns the cron's first time after `time`, in ms since 1970; null for never. */
  after(time) {
    const now = Math.floor(time / MINUTE_MS) * MINUTE_MS;
    // The current minute counts while one of the cron's seconds in it is still to come.
    const isNow = next(this.#minutes, now - 1) === now;
    const second = this.#seconds.find((each) => now + each * 1000 > time);
    if (isNow && second !== undefined) return now + second * 1000;
    const minute = next(this.#minutes, now);
    return minute === null ? null : minute + this.#seconds[0] * 1000;
  }
}

/**
 * The schedule of one cron. It stores `name`, the expression; `at`, the time of its alarm; `owed`, the failed run that the
 * alarm repeats, or null; and `ran`, the scheduled time of the latest run.
 */
export class Schedule extends DurableObject {
  #running = null;

  /**
   * Called at each start of the process. Keeps an alarm that is set for an earlier time, such as one that is overdue.
   * @returns the time of the alarm, in ms since 1970; null for a cron that never runs
   */
  async arm(name) {
    await this.#running?.catch(() => {});
    const { storage } = this.ctx;
    const ran = (await storage.get('ran')) ?? 0;
    // If the clock was set back, times up to `ran` must not run again.
    const at = new Times(name).after(Math.max(Date.now(), ran));
    const alarm = await storage.getAlarm();
    if (at === null) return null;
    if (alarm !== null && alarm <= at) return alarm;
    await this.#plan({ name, at, owed: null });
    return at;
  }

  alarm() {
    this.#running = this.#fire();
    return this.#running;
  }

  async #fire() {
    const { storage } = this.ctx;
    const stored = await storage.get(['name', 'at', 'owed']);
    const name = stored.get('name');
    // The release no longer has this cron.
    if (this.env[name] === undefined) return storage.deleteAll();
    const { time, retry } = stored.get('owed') ?? { time: stored.get('at'), retry: 0 };
    const isDone = await this.#run(name, time);
    const now = Date.now();
    const at = new Times(name).after(Math.max(now, time));
    const again = isDone || retry >= RETRIES ? null : now + BACKOFF_MS * 2 ** retry;
    await storage.put('ran', time);
    if (again !== null && (at === null || again < at))
      await this.#plan({ name, at: again, owed: { time, retry: retry + 1 } });
    else if (at !== null) await this.#plan({ name, at, owed: null });
  }

  async #plan(entries) {
    await this.ctx.storage.put(entries);
    await this.ctx.storage.setAlarm(entries.at);
  }

  /** Runs the cron for its scheduled `time`. Returns false if the run must be repeated. */
  async #run(name, time) {
    let timer;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('timed out')), RUN_MS);
    });
    try {
      const run = this.env[name].scheduled({ scheduledTime: new Date(time), cron: name });
      const { outcome, noRetry } = await Promise.race([run, timeout]);
      return outcome === 'ok' || noRetry;
    } catch (error) {
      console.error(`cron "${name}": ${error}`);
      return false;
    } finally {
      clearTimeout(timer);
    }
  }
}

// Throws for an invalid cron, so that workerd refuses the config when it loads.
for (const cron of env.SECONDS) new Times(cron);

export default {};
