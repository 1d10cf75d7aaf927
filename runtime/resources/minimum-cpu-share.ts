// What gives way gets what others leave of the processors. While they leave next to nothing it has a floor: whatever one app
// does, others must be able to deploy. The floor costs the visitors of apps little then, who wait for those others already.
import { setTimeout as sleep } from 'node:timers/promises';
import { logRarely, reason } from '../log.ts';
import { type Job, startJob } from '../processes/child.ts';
import { setMinimumShare, toLowPriority } from './low-priority-group.ts';

/** Answers each line after some 10 ms of work: a kernel that is fair serves one that does less in time, however little it is due. */
const PROBE = 'while read -r line; do n=0; while [ $n -lt 10000 ]; do n=$((n + 1)); done; echo; done';

/** In ms. */
const TIMES = {
  /** What the probe may take for its work; one that takes longer gets less than about 2 % of a core. */
  patience: 500,
  /** How long there is a floor before the probe is asked without it. */
  floor: 5_000,
  /** Between two questions while others leave enough. */
  pause: 1_000,
};

/** Watches by a process that gives way whether such a process gets anything of the processors. */
export class MinimumCpuShare {
  readonly #atLowPriority: () => string[];
  readonly #times: typeof TIMES;
  #jobs = 0;
  #end = new AbortController();
  #ended: Promise<void> = Promise.resolve();
  #known: Promise<void> = Promise.resolve();
  #starved = false;
  #pid: number | null = null;

  /** @param giveWay the words before a command that have it give way */
  constructor(atLowPriority: () => string[], times: typeof TIMES = TIMES) {
    this.#atLowPriority = atLowPriority;
    this.#times = times;
  }

  /** Whether what gives way got next to nothing when that was last looked at; `false` while nothing is watched. */
  get starved(): boolean {
    return this.#starved;
  }

  /** What a message adds that says that something took too long; empty when others left enough of the processors. */
  get excuse(): string {
    return this.#starved
      ? ', since other programs kept the processors of this machine busy; push again when they do not'
      : '';
  }

  /** The id of the process that is asked; `null` while there is none. */
  get pid(): number | null {
    return this.#pid;
  }

  /** Resolves when `starved` tells of now. That takes some 20 ms, or half a second, after the start of a watch. */
  known(): Promise<void> {
    return this.#known;
  }

  /** Watches while `job` runs. */
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

  /** Never rejects. */
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
        logRarely('warn', 'it is not known whether builds get processor time', { error: reason(error) });
    }
    probe?.end();
    this.#pid = null;
    this.#starved = false;
    await setMinimumShare(false);
    known();
  }

  /** Asks until `ended`. @throws when the probe ends before */
  async #ask({ stdin, stdout }: Job, ended: AbortSignal, known: () => void): Promise<void> {
    const { patience, floor, pause } = this.#times;
    const answers: AsyncIterator<Buffer> = stdout[Symbol.asyncIterator]();
    while (!ended.aborted) {
      stdin.write('\n');
      const answer = answers.next().then(({ done }) => {
        if (done) throw new Error('the process that is asked has ended');
      });
      this.#starved = !(await isWithin(answer, patience));
      if (this.#starved) await setMinimumShare(true);
      known();
      await Promise.all([answer, sleep(this.#starved ? floor : pause, undefined, { signal: ended })]);
      if (this.#starved) await setMinimumShare(false);
    }
  }
}

/** Whether it resolves in time. @throws what it rejects with until then */
async function isWithin(promise: Promise<void>, ms: number): Promise<boolean> {
  const stop = new AbortController();
  const late = sleep(ms, false, { signal: stop.signal }).catch(() => false);
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    stop.abort();
  }
}
