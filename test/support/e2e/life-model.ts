// A model of one app of a real Cellar. It runs random actions at once, and checks which answers are allowed and the app's
// state afterwards.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { controlPlane, eventually, processes } from '../processes.ts';
import { type Cellar, COUNTER_CLASS, COUNTER_CONFIG } from './cellar.ts';
import { type Action, type ApiCall, KILLS, type Program } from './life-programs.ts';

/** Counts each request in a Durable Object, then waits `ms` milliseconds, then answers. */
const CODE = `${COUNTER_CLASS}export default {
  async fetch(request, env) {
    const n = await env.COUNTER.getByName('one').add();
    await scheduler.wait(Number(new URL(request.url).searchParams.get('ms')));
    return Response.json({ n });
  },
};`;

/** Longest wait for an answer, in ms. */
const ANSWER_MS = 60_000;
interface Answer {
  what: string;
  /** 0 when the connection failed. */
  status: number;
  detail: string;
  retryAfter: string | null;
}

export class AppLife {
  readonly #cellar: Cellar;
  readonly #slug = 'life';
  #id = '';
  #work = '';
  #host = 0;
  /** The counts in all answers so far. The app must not lose any of them. */
  readonly #counted = new Set<number>();

  constructor(cellar: Cellar) {
    this.#cellar = cellar;
  }

  async deploy(): Promise<void> {
    this.#host = this.#cellar.pid;
    this.#id = await this.#cellar.create(this.#slug);
    this.#work = await this.#cellar.checkout('hello');
    writeFileSync(join(this.#work, 'wrangler.toml'), COUNTER_CONFIG);
    writeFileSync(join(this.#work, 'index.js'), CODE);
    assert.equal((await this.#push()).status, 200);
  }

  /** Runs all actions at once on a running app, then checks the answers and the app. */
  async run(program: Program): Promise<void> {
    await this.#start();
    const running = new AbortController();
    const most = this.#mostCells(running.signal);
    // All actions end before any check: a failed check must not leave actions running into the next program.
    const outcomes = await Promise.allSettled(program.map((step) => this.#do(step)));
    running.abort();
    assert.ok((await most) <= 1, 'two processes had the storage at the same time');
    const answers = outcomes.map((outcome) => {
      if (outcome.status === 'rejected') throw outcome.reason;
      return outcome.value;
    });
    for (const answer of answers) assertAllowed(answer, program);
    await eventually(() => this.#agree(), 'both planes agree with the process', 40_000);
    await this.#assertServes(program.some(({ what }) => what === 'kill app'));
  }

  async #do(step: Action): Promise<Answer> {
    await delay(step.after);
    switch (step.what) {
      case 'request':
        return this.#request(step.ms);
      case 'wake hop':
        return this.#hop();
      case 'push':
        return this.#push();
      case 'kill app':
        await this.#killCells();
        return done(step.what);
      case 'kill control plane':
        for (const pid of this.#controlPlanes()) kill(pid);
        return done(step.what);
      case 'kill host':
        await this.#cellar.stop('SIGKILL');
        await this.#cellar.start();
        this.#host = this.#cellar.pid;
        return done(step.what);
      default:
        return this.#call(step.what);
    }
  }

  async #request(ms: number): Promise<Answer> {
    const signal = AbortSignal.timeout(ANSWER_MS);
    const answer = await this.#answer('request', () =>
      this.#cellar.open(this.#slug, `/?ms=${ms}`, { signal }),
    );
    if (answer.status === 200) {
      const { n } = JSON.parse(answer.detail) as { n: number };
      assert.ok(!this.#counted.has(n), `${n} was counted twice: a write that was acknowledged is lost`);
      this.#counted.add(n);
    }
    return answer;
  }

  #call(what: ApiCall): Promise<Answer> {
    const { api, token } = this.#cellar;
    const [method, path, body] =
      what === 'sleep'
        ? ['POST', '/sleep', null]
        : ['PATCH', '', JSON.stringify({ desired_state: what === 'start' ? 'running' : 'stopped' })];
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const signal = AbortSignal.timeout(ANSWER_MS);
    return this.#answer(what, () =>
      fetch(`${api}/v1/apps/${this.#id}${path}`, { method, headers, body, signal }),
    );
  }

  #hop(): Promise<Answer> {
    const headers = { 'x-forwarded-host': `${this.#slug}.localhost` };
    const signal = AbortSignal.timeout(ANSWER_MS);
    return this.#answer('wake hop', () => fetch(`${this.#cellar.api}/v1/edge/wake`, { headers, signal }));
  }

  async #push(): Promise<Answer> {
    await this.#cellar.commit(this.#work, 'once more');
    const { code, stderr } = await this.#cellar.push(this.#work, this.#slug);
    const deployed = code === 0 && /serves this push|live once the app is started/.test(stderr);
    return { what: 'push', status: deployed ? 200 : 500, detail: stderr, retryAfter: null };
  }

  async #answer(
    what: string,
    ask: () => Promise<{
      status: number;
      headers: { get: (name: string) => string | null };
      text: () => Promise<string>;
    }>,
  ): Promise<Answer> {
    try {
      const response = await ask();
      const detail = await response.text();
      return { what, status: response.status, detail, retryAfter: response.headers.get('retry-after') };
    } catch (error) {
      if ((error as Error).name === 'TimeoutError')
        throw new Error(`${what} got no answer`, { cause: error });
      return { what, status: 0, detail: String((error as Error).cause ?? error), retryAfter: null };
    }
  }

  /** Polls every 25 ms. @returns the largest number of the app's processes at one time */
  async #mostCells(until: AbortSignal): Promise<number> {
    let most = 0;
    while (!until.aborted) {
      most = Math.max(most, this.#cells().length);
      await delay(25);
    }
    return most;
  }

  /** Whether the status in the API matches the app's processes. */
  async #agree(): Promise<boolean> {
    const before = await this.#status();
    const cells = this.#cells().length;
    if (before === null || (await this.#status()) !== before) return false;
    return before === 'running'
      ? cells === 1
      : ['sleeping', 'stopped', 'crashed'].includes(before) && cells === 0;
  }

  async #status(): Promise<string | null> {
    try {
      return (await this.#cellar.call('GET', `/v1/apps/${this.#id}`)).body.status ?? null;
    } catch {
      return null;
    }
  }

  /** Asserts that the app answers and has lost no write. If the app is stopped or crashed, it must answer 503, and is started. */
  async #assertServes(killed: boolean): Promise<void> {
    let answer = await this.#request(0);
    // A 502: the request reached the killed process before the host noticed its end.
    if (answer.status === 502 && killed) answer = await this.#request(0);
    if (answer.status !== 200) {
      const status = await this.#status();
      assert.ok(
        status === 'stopped' || status === 'crashed',
        `${status}, and answers ${answer.status}: ${answer.detail}`,
      );
      assert.deepEqual([answer.status, JSON.parse(answer.detail).code], [503, 'app_unavailable']);
      assert.match(answer.detail, new RegExp(status));
      assert.ok(Number(answer.retryAfter) > 0);
      await this.#start();
      answer = await this.#request(0);
      assert.equal(answer.status, 200, answer.detail);
    }
    const { n } = JSON.parse(answer.detail) as { n: number };
    assert.equal(n, Math.max(...this.#counted), 'the last count is the highest');
  }

  /** Starts the app. While the host puts the app to sleep, the API answers 409, and this method retries. */
  async #start(): Promise<void> {
    await eventually(async () => {
      const { status, detail } = await this.#call('start');
      assert.ok(status === 200 || status === 409, detail);
      return status === 200;
    }, 'it starts');
  }

  #cells(): number[] {
    const socket = `/run/${this.#id}/new/http.sock`;
    return processes()
      .filter(({ command }) => command.some((word) => word.includes(socket)))
      .map(({ pid }) => pid);
  }

  async #killCells(): Promise<void> {
    const pids = this.#cells();
    for (const pid of pids) kill(pid);
    await eventually(() => !this.#cells().some((pid) => pids.includes(pid)), 'the killed process is gone');
  }

  #controlPlanes(): number[] {
    const running = controlPlane(this.#host);
    return running ? [running.pid] : [];
  }
}

function done(what: string): Answer {
  return { what, status: 200, detail: '', retryAfter: null };
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended meanwhile.
  }
}

/** Asserts that each failed answer is explained by an action of the program. */
function assertAllowed({ what, status, detail, retryAfter }: Answer, program: Program): void {
  const did = (...names: Action['what'][]) => program.some((step) => names.includes(step.what));
  const message = `${what} was answered ${status}: ${detail}`;
  if (status === 200) return;
  if (what === 'request' || what === 'wake hop') {
    if (status === 503) {
      assert.ok(Number(retryAfter) > 0, message);
      const reason = /stopped/.test(detail) ? did('stop') : did('kill app', 'kill host');
      assert.ok(reason, message);
    } else if (status === 502) assert.ok(did('kill app', 'kill host'), message);
    else assert.ok(status === 0 && did('kill host'), message);
  } else if (what === 'push') assert.ok(did(...KILLS), message);
  else if (status === 409) assert.match(detail, /transition_conflict/, message);
  else if (status === 503 && /did not start/.test(detail)) assert.ok(did('kill app', 'kill host'), message);
  else assert.ok(did('kill control plane', 'kill host'), message);
}
