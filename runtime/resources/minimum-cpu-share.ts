// Low-priority processes run only on idle CPU time. While there is almost none, they get a minimum share: one busy app must
// not keep others from deploying. The share costs little then, as visitors of apps wait for those busy apps already.
import { setTimeout as sleep } from 'node:timers/promises';
import { logRarely, reason } from '../log.ts';
import { type Job, startJob } from '../processes/child.ts';
import { setMinimumShare, toLowPriority } from './low-priority-group.ts';

/** Answers each line after some 10 ms of work: a fair kernel serves such a small load in time, even with little weight. */
const PROBE = 'while read -r line; do n=0; while [ $n -lt 10000 ]; do n=$((n + 1)); done; echo; done';

/** In ms. */
const TIMES = {
  /** Timeout of an answer of the probe. A probe that exceeds it got less than about 2 % of a core. */
  patience: 500,
  /** How long the minimum share lasts before the next probe without it. */
  floor: 5_000,
  /** Interval of the probes while there is idle CPU time. */
  pause: 1_000,
};

/** Watches, by a low-priority probe process, whether low-priority processes get any CPU time. */
export class MinimumCpuShare {
  readonly #atLowPriority: () => string[];
  readonly #times: typeof TIMES;
  #jobs = 0;
  #end = new AbortController();
  #ended: Promise<void> = Promise.resolve();
  #known: Promise<void> = Promise.resolve();
  #starved = false;
  #pid: number | null = null;

  /** @param atLowPriority returns the arguments before a command that run it at low priority */
  constructor(atLowPriority: () => string[], times: typeof TIMES = TIMES) {
    this.#atLowPriority = atLowPriority;
    this.#times = times;
  }

  /** Whether low-priority processes got almost no CPU time at the last probe; `false` while nothing is watched. */
  get starved(): boolean {
    return this.#starved;
  }

  /** Text to add to a timeout message; empty when there was enough CPU time. */
  get excuse(): string {
    return this.#starved
      ? ', since other programs kept the processors of this machine busy; try again when they do not'
      : '';
  }

  /** The id of the probe process; `null` while none runs. */
  get pid(): number | null {
    return this.#pid;
  }

  /** Resolves after the first probe of a watch: in some 20 ms, or half a second when there is no idle CPU time. */
  known(): Promise<void> {
    return this.#known;
  }

  /** Probes the idle CPU time while `job` runs. Concurrent jobs share one probe. */
  async during<T>(job: () => Promise<T>): Promise<T> {
    if (this.#jobs++ === 0) {
      const known = Promise.withResolvers<void>();
      this.#known = known.promise;
      this.#end = new AbortController();
      const { signal } = this.#end;
      this.#ended = this.#ended.then(() => this.#watch(signal, known.resolve));
    }
    try {
      return await job();
    } finally {
      if (--this.#jobs === 0) this.#end.abort();
    }
  }

  /** Runs the probe process until `ended`. Never rejects. @param known called after each probe, and at the end */
  async #watch(ended: AbortSignal, known: () => void): Promise<void> {
    let probe: Job | null = null;
    try {
      const job = await startJob([...this.#atLowPriority(), 'sh', '-c', PROBE], {
        title: 'probe of the processors',
      });
      probe = job;
      this.#pid = job.pid;
      ended.addEventListener('abort', () => job.end());
      await toLowPriority(job.pid, 'probe');
      await this.#ask(job, ended, known);
    } catch (error) {
      if (!ended.aborted)
        logRarely('warn', 'the CPU share of builds could not be measured', { error: reason(error) });
    }
    probe?.end();
    this.#pid = null;
    this.#starved = false;
    await setMinimumShare(false);
    known();
  }

  /** Probes until `ended`. @throws {Error} when the probe process ends before, or when `ended` aborts a pause */
  async #ask({ stdin, stdout }: Job, ended: AbortSignal, known: () => void): Promise<void> {
    const { patience, floor, pause } = this.#times;
    const answers: AsyncIterator<Buffer> = stdout[Symbol.asyncIterator]();
    while (!ended.aborted) {
      stdin.write('\n');
      const answer = answers.next().then(({ done }) => {
        if (done) throw new Error('the probe process has ended');
      });
      this.#starved = !(await isWithin(answer, patience));
      if (this.#starved) await setMinimumShare(true);
      known();
      await Promise.all([answer, sleep(this.#starved ? floor : pause, undefined, { signal: ended })]);
      if (this.#starved) await setMinimumShare(false);
    }
  }
}

/** Whether a promise resolves within `ms`. @throws its error, if it rejects within `ms` */
async function isWithin(promise: Promise<void>, ms: number): Promise<boolean> {
  const stop = new AbortController();
  const late = sleep(ms, false, { signal: stop.signal }).catch(() => false);
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    stop.abort();
  }
}
