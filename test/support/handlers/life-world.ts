// Simulates an app's life with the control plane's real code and a fake host. Messages, round trips to the database and the
// work of the host are steps. A test decides in which order the steps run, and which of them are lost.
import type { ControlCode, ControlObject, LifeRow, MemoryD1, Outcome } from './control-in-process.ts';
import { type AppRequest, type HostDatabase, LifeHost } from './life-host.ts';
import { type Owner, Pool, settled } from './life-pool.ts';

/** One start of the control plane. */
interface Isolate {
  owner: Owner;
  db: object;
  env: object;
  object: ControlObject;
  died: PromiseWithResolvers<null>;
}

/** API calls that change an app's state. */
export type ApiCall = 'start' | 'stop' | 'sleep';

/** A call of the API. `cut`: the control plane was killed before it answered. */
export interface Call {
  event: ApiCall;
  outcome: Outcome<LifeRow> | 'cut' | Error | null;
  /** Whether a failure was injected during the call. Then the call may fail; otherwise it must succeed. */
  troubled: boolean;
}

export interface WorldRequest {
  request: AppRequest;
  troubled: boolean;
}

/** Limit that detects an endless loop: no program needs so many steps. */
const STEPS_LIMIT = 5_000;
const EPOCH = Date.parse('2026-01-01T00:00:00.000Z');

export class World {
  readonly #code: ControlCode;
  readonly #database: MemoryD1;
  readonly #pool = new Pool();
  readonly id: string;
  readonly calls: Call[] = [];
  readonly requests: WorldRequest[] = [];
  #clock = 0;
  #deploys = 0;
  #isolate: Isolate | null = null;
  #up = Promise.withResolvers<void>();
  #host: LifeHost;
  #delivering = false;
  #broken = false;

  /** @param id the app's id, new in this database */
  constructor(code: ControlCode, database: MemoryD1, id: string) {
    this.#code = code;
    this.#database = database;
    this.id = id;
    const empty = {
      wanted: null,
      live: null,
      deployedAt: null,
      asleepSince: null,
      wokeAt: null,
      outbox: [],
      seq: 0,
      deploy: null,
      deploys: [],
    };
    this.#host = this.#boot({ name: `${id}-outbox`, ...empty });
    this.#startControl();
  }

  get host(): LifeHost {
    return this.#host;
  }

  get row(): LifeRow {
    return this.#database.all({ sql: 'SELECT * FROM apps WHERE id = ?1', values: [this.id] })[0] as LifeRow;
  }

  /** Number of waiting steps. */
  get waiting(): number {
    return this.#pool.size;
  }

  take(choice: number): Promise<void> {
    return this.#pool.take(choice);
  }

  /** Creates the app, and deploys it if `deployed`. */
  async create(deployed: boolean): Promise<void> {
    const app = {
      id: this.id,
      slug: this.id,
      owner: null,
      quota: Number.MAX_SAFE_INTEGER,
      storage: 'local',
      home: null,
      at: this.#now(),
    };
    void this.#isolate!.object.create(app);
    await settled();
    await this.drain(() => 0);
    if (deployed) this.push();
    await this.drain(() => 0);
  }

  remove(): void {
    this.#database.all({ sql: 'DELETE FROM apps WHERE id = ?1', values: [this.id] });
  }

  /** Starts an API call, and adds it to `calls`, where its outcome appears later. */
  call(event: ApiCall): void {
    const isolate = this.#isolate;
    const call: Call = { event, outcome: null, troubled: isolate === null || this.#isTroubled };
    this.calls.push(call);
    if (isolate === null) {
      call.outcome = 'cut';
      return;
    }
    Promise.race([isolate.object[event](this.id), isolate.died.promise])
      .catch((error: unknown) => error as Error)
      .then((outcome) => {
        call.outcome = outcome ?? 'cut';
      });
  }

  sweep(): void {
    this.#host.sweep();
  }

  request(): void {
    const troubled = this.#isTroubled;
    this.requests.push({ request: this.#host.request(), troubled });
  }

  push(): void {
    this.#broken = false;
    this.#host.deploy(`${this.id}-${++this.#deploys}`);
  }

  /** Makes the release fail to start from now on. */
  break(): void {
    this.#trouble();
    this.#broken = true;
  }

  mend(): void {
    this.#broken = false;
  }

  async lose(choice: number): Promise<void> {
    if (this.#pool.losable === 0) return;
    this.#trouble();
    await this.#pool.lose(choice);
  }

  crashApp(): void {
    this.#trouble();
    this.#host.crash();
  }

  /** Kills the control plane's process. A later step starts a new process. */
  crashControl(): void {
    this.#trouble();
    if (this.#isolate === null) return;
    this.#pool.end(this.#isolate.owner);
    this.#isolate.died.resolve(null);
    this.#isolate = null;
    this.#up = Promise.withResolvers();
    void this.#pool.add(this.#host.owner, () => this.#startControl());
  }

  /** Kills the host and the control plane. The host is back at once, the control plane after a later step. */
  crashHost(): void {
    this.crashControl();
    this.#host.end();
    this.#delivering = false;
    this.#host = this.#boot(this.#host.database);
    void this.#pool.add(this.#host.owner, () => {
      this.#startControl();
      void this.#reconcile(this.#isolate!).catch(() => {});
    });
  }

  /** Runs steps until none waits. */
  async drain(choose: () => number): Promise<void> {
    for (let taken = 0; this.#pool.size > 0; taken++) {
      if (taken === STEPS_LIMIT) throw new Error('it goes on for ever');
      await this.#pool.take(choose());
    }
  }

  /** Runs the reconciliation, which Cellar runs every minute. It makes the control plane and the host agree. */
  async reconcile(choose: () => number): Promise<void> {
    const isolate = this.#isolate!;
    const done = this.#reconcile(isolate);
    await settled();
    await this.drain(choose);
    const { refused } = await done;
    if (refused > 0) throw new Error('reconcile was refused, and nothing was in its way');
  }

  #boot(database: HostDatabase): LifeHost {
    return new LifeHost(
      {
        pool: this.#pool,
        now: () => this.#now(),
        broken: () => this.#broken,
        onFacts: () => void this.#deliver(),
      },
      database,
    );
  }

  #startControl(): void {
    if (this.#isolate !== null) return;
    const owner: Owner = { alive: true };
    const db = this.#database.through((work) => this.#pool.add(owner, work, true));
    const env = {
      DB: db,
      HOST: { fetch: (url: string, init: HostCall) => this.#callHost(owner, url, init) },
      HOST_SECRET: 'secret',
      RUNNER_WAKE_TIMEOUT_S: '120',
    };
    const object = new this.#code.AppObject({}, env);
    this.#isolate = { owner, db, env, object, died: Promise.withResolvers() };
    this.#up.resolve();
    void this.#deliver();
  }

  /** Calls the host. The request and the response are separate steps, and either may be lost. */
  async #callHost(owner: Owner, url: string, { method, body }: HostCall): Promise<object> {
    const { pathname } = new URL(url);
    const [status, answer] = await this.#pool.add(
      owner,
      () => this.#host.answer(method, pathname, body ?? undefined),
      true,
    );
    await this.#pool.add(owner, () => {}, true);
    const text = JSON.stringify(answer);
    return { status, ok: status < 300, json: async () => JSON.parse(text), text: async () => text };
  }

  /** Delivers the host's facts to the control plane. Repeats each batch until it is applied. */
  async #deliver(): Promise<void> {
    if (this.#delivering) return;
    this.#delivering = true;
    const host = this.#host;
    while (host.database.outbox.length > 0 && host === this.#host && this.#isolate !== null) {
      const isolate = this.#isolate;
      const events = [...host.database.outbox];
      const applied = this.#code.applyHostEvents(isolate.db, { outbox: host.database.name, events });
      const done = await Promise.race([applied.catch(() => null), isolate.died.promise]);
      if (done === null) continue;
      host.database.outbox = host.database.outbox.filter((event) => !events.includes(event));
    }
    if (host === this.#host) this.#delivering = false;
  }

  #reconcile({ db, env, object }: Isolate): Promise<{ refused: number }> {
    const host = new this.#code.HostClient(env);
    return this.#code.reconcile({ db, env, host, app: () => object, at: this.#now() });
  }

  /** Whether a new call or request may fail: the release is broken, or an unfinished call or request may fail. */
  get #isTroubled(): boolean {
    const calls = this.calls.some(({ outcome, troubled }) => outcome === null && troubled);
    return (
      this.#broken || calls || this.requests.some((asked) => asked.request.answer === null && asked.troubled)
    );
  }

  #trouble(): void {
    for (const call of this.calls) if (call.outcome === null) call.troubled = true;
    for (const asked of this.requests) if (asked.request.answer === null) asked.troubled = true;
  }

  #now(): string {
    return new Date(EPOCH + ++this.#clock * 1000).toISOString();
  }
}

interface HostCall {
  method: string;
  body: string | null;
}
