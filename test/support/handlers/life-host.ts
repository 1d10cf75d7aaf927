// A fake host for one app, with the rules of the real host. It refuses wanted states of older generations, and runs work from
// a queue. It queues requests while the app starts, and reports facts through an outbox. After a crash, it recovers the wanted
// state from its database.
import type {
  AsOf,
  DeployFact,
  HostEvent,
  ObservedApp,
  ProcessState,
  WantedApp,
} from '../../../handlers/contract/host/host-calls.ts';
import type { Owner, Pool } from './life-pool.ts';

/** Outcome of a request. `cut`: the host was killed while the request waited. */
export type Answer = 'served' | 'stopped' | 'crashed' | 'never deployed' | 'not woken' | 'cut';

export interface AppRequest {
  answer: Answer | null;
}

/** The host's database, which survives a crash of the host. */
export interface HostDatabase {
  /** The name of the host's outbox. */
  name: string;
  wanted: WantedApp | null;
  live: string | null;
  deployedAt: string | null;
  asleepSince: string | null;
  wokeAt: string | null;
  outbox: HostEvent[];
  seq: number;
  /** The deploy in progress. */
  deploy: DeployFact | null;
  deploys: DeployFact[];
}

export interface HostWorld {
  pool: Pool;
  now: () => string;
  /** Whether the release fails to start. */
  broken: () => boolean;
  onFacts: () => void;
}

export class LifeHost {
  readonly #world: HostWorld;
  readonly #owner: Owner = { alive: true };
  readonly database: HostDatabase;
  process: ProcessState = 'none';
  #work: Promise<unknown> = Promise.resolve();
  #waiting: AppRequest[] = [];
  /** The sleep in progress. */
  #suspending: Promise<void> | null = null;

  /** Boots on a database: a running app starts again, a sleeping one stays asleep, a deploy in progress fails. */
  constructor(world: HostWorld, database: HostDatabase) {
    this.#world = world;
    this.database = database;
    const { wanted, live, deploy } = database;
    if (deploy !== null) this.#reportDeploy({ ...deploy, status: 'failed' });
    if (wanted === null || live === null) return;
    if (wanted.desired_state === 'stopped') this.#enter('stopped');
    else if (database.asleepSince !== null) this.#enter('idle');
    else {
      this.#enter('starting');
      void this.#queue(() => this.#reach());
    }
  }

  get owner(): Owner {
    return this.#owner;
  }

  get asOf(): AsOf {
    return { outbox: this.database.name, seq: this.database.seq };
  }

  /** Answers a call of the control plane: status and body. */
  async answer(method: string, path: string, body: string | undefined): Promise<[number, unknown]> {
    const { wanted } = this.database;
    if (method === 'GET' && path === '/apps') {
      const items = wanted === null ? [] : [this.observe()];
      return [200, { as_of: this.asOf, highest_generation: wanted?.generation ?? 0, items }];
    }
    if (path === '/deploys') return [200, { as_of: this.asOf, items: this.#known(body!) }];
    if (wanted === null && method === 'POST') return [404, { code: 'app_not_found' }];
    if (path.endsWith('/start')) return this.#startNow();
    if (path.endsWith('/sleep')) return this.#sleepNow();
    const sent = JSON.parse(body!) as WantedApp;
    if (sent.generation < (wanted?.generation ?? 0)) return [409, { code: 'stale_generation' }];
    if (wanted?.desired_state === 'stopped' && sent.desired_state === 'running')
      this.#mark(null, this.#world.now());
    this.database.wanted = sent;
    await this.#queue(() => this.#reach());
    return this.#applied();
  }

  #applied(): [number, unknown] {
    return [200, { app: this.observe(), as_of: this.asOf }];
  }

  async #startNow(): Promise<[number, unknown]> {
    if (this.#suspending !== null) return conflict('The app is being put to sleep');
    await this.#queue(async () => {
      const { wanted, live } = this.database;
      if (this.#asleep && live !== null && wanted!.desired_state === 'running' && this.process !== 'running')
        await this.#start();
      else await this.#reach();
    });
    return this.#applied();
  }

  async #sleepNow(): Promise<[number, unknown]> {
    if (this.#suspending === null) {
      const why = this.#whyNoSleep();
      if (why !== null) return conflict(why);
      if (this.#asleep) return this.#applied();
      this.#suspend();
    }
    await this.#suspending;
    return this.#applied();
  }

  /** Puts the app to sleep, as the host's sweep does with an unused app. The app is unused if no request waits for it. */
  sweep(): void {
    const isUnused = !this.#asleep && this.#waiting.length === 0;
    if (this.#suspending === null && this.#whyNoSleep() === null && isUnused) this.#suspend();
  }

  #suspend(): void {
    this.#suspending = this.#queue(async () => {
      if (this.database.wanted!.desired_state === 'stopped') return;
      this.#mark(this.#world.now());
      this.#enter('idle');
    }).finally(() => {
      this.#suspending = null;
    });
    this.#suspending.catch(() => {});
  }

  get #asleep(): boolean {
    return this.database.asleepSince !== null;
  }

  #whyNoSleep(): string | null {
    const { wanted, live, deploy } = this.database;
    if (wanted!.desired_state === 'stopped')
      return 'The app is stopped; only a running app can be put to sleep';
    if (live === null) return 'Nothing has been deployed yet, so there is nothing to put to sleep';
    if (deploy !== null) return 'A deploy is under way; put the app to sleep when it has ended';
    return this.#asleep && this.process === 'starting' ? 'The app is being woken' : null;
  }

  #mark(asleepSince: string | null, wokeAt = this.database.wokeAt): void {
    this.database.asleepSince = asleepSince;
    this.database.wokeAt = wokeAt;
    this.#report({ type: 'app', app: this.observe() });
  }

  #known(body: string): DeployFact[] {
    const asked = (JSON.parse(body) as { id: string }[]).map(({ id }) => id);
    return this.database.deploys.filter(({ id }) => asked.includes(id));
  }

  observe(): ObservedApp {
    const { wanted, live, deployedAt, asleepSince, wokeAt } = this.database;
    return {
      id: wanted!.id,
      generation: wanted!.generation,
      process_state: this.process,
      live_deploy_id: live,
      deployed_at: deployedAt,
      last_error: this.process === 'crashed' ? 'it throws' : null,
      asleep_since: asleepSince,
      woke_at: wokeAt,
    };
  }

  request(): AppRequest {
    const request: AppRequest = { answer: null };
    this.#admit(request);
    return request;
  }

  /** Builds a release and makes it live. */
  deploy(id: string): void {
    const { wanted } = this.database;
    const at = this.#world.now();
    const fact: DeployFact = {
      ...{ id, app_id: wanted!.id, sha: '', ref: '', message: '', author: '', trigger: 'push', steps: [] },
      ...{ can_roll_back: false },
      ...{ status: 'queued', error: null, created_at: at, started_at: null, finished_at: null },
    };
    this.#reportDeploy(fact);
    if (this.#asleep || this.#suspending !== null)
      void this.#queue(async () => {
        if (!this.#asleep) return;
        this.#mark(null, this.#world.now());
        await this.#start();
      });
    const build = this.#world.pool.add(this.#owner, () =>
      this.#reportDeploy({ ...fact, status: 'building' }),
    );
    void build.then(() => this.#queue(() => this.#release(fact)));
  }

  /** Kills the app's process. */
  crash(): void {
    if (this.process !== 'running') return;
    this.#enter('crashed');
    this.#restartLater();
  }

  /** Kills the host and the app's process. Waiting requests end with `cut`. */
  end(): void {
    this.#world.pool.end(this.#owner);
    for (const request of this.#waiting) request.answer = 'cut';
    this.#waiting = [];
  }

  async #release(fact: DeployFact): Promise<void> {
    const serves = this.database.wanted!.desired_state === 'running';
    if (serves) {
      this.#enter('starting');
      await this.#step();
    }
    this.database.live = fact.id;
    this.database.deployedAt = this.#world.now();
    this.#reportDeploy({ ...fact, status: 'live' });
    if (!serves) this.#enter('stopped');
    else if (this.#world.broken()) this.#failed();
    else this.#enter('running');
  }

  async #reach(): Promise<void> {
    const { wanted, live } = this.database;
    if (live === null) return;
    if (wanted!.desired_state === 'stopped') {
      if (this.#asleep) this.#mark(null);
      this.#enter('stopped');
    } else if (!this.#asleep && this.process !== 'running') await this.#start();
  }

  async #start(): Promise<void> {
    this.#enter('starting');
    await this.#step();
    if (this.database.wanted!.desired_state === 'stopped') this.#enter('stopped');
    else if (this.#world.broken()) this.#failed();
    else this.#enter('running');
  }

  #failed(): void {
    this.#enter('crashed');
    this.#restartLater();
  }

  #restartLater(): void {
    const again = async () => {
      if (this.process !== 'crashed') return;
      if (this.#asleep) this.#enter('idle');
      else await this.#start();
    };
    void this.#world.pool.add(this.#owner, () => void this.#queue(again));
  }

  #enter(process: ProcessState): void {
    const before = this.process;
    this.process = process;
    if (before === process) return;
    if (this.database.wanted !== null) this.#report({ type: 'app', app: this.observe() });
    if (process === 'running' && this.#asleep) this.#mark(null, this.#world.now());
    this.#admitAgain();
  }

  #admit(request: AppRequest): void {
    switch (this.process) {
      case 'running':
        request.answer = 'served';
        return;
      case 'starting':
        this.#waiting.push(request);
        return;
      case 'idle':
        this.#waiting.push(request);
        this.#enter('starting');
        void this.#queue(async () => {
          if (this.process === 'starting') await this.#start();
        });
        return;
      case 'none':
        request.answer = 'never deployed';
        return;
      default:
        request.answer = this.process === 'crashed' && this.#asleep ? 'not woken' : this.process;
    }
  }

  #admitAgain(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const request of waiting) this.#admit(request);
  }

  #reportDeploy(deploy: DeployFact): void {
    this.database.deploy = deploy.status === 'live' || deploy.status === 'failed' ? null : deploy;
    this.database.deploys = [...this.database.deploys.filter(({ id }) => id !== deploy.id), deploy];
    this.#report({ type: 'deploy', deploy });
  }

  #report(fact: { type: 'deploy'; deploy: DeployFact } | { type: 'app'; app: ObservedApp }): void {
    this.database.outbox.push({ seq: ++this.database.seq, at: this.#world.now(), ...fact });
    this.#world.onFacts();
  }

  #step(): Promise<void> {
    return this.#world.pool.add(this.#owner, () => {});
  }

  /** Runs work in order, one after another. */
  #queue(work: () => Promise<void>): Promise<void> {
    const done = this.#work.then(() => this.#step()).then(work);
    this.#work = done.catch(() => {});
    return done;
  }
}

function conflict(detail: string): [number, unknown] {
  return [409, { code: 'transition_conflict', detail }];
}
