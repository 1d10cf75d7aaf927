// A host for one app that keeps to the rules of the real one: it fences by generation, does one thing after another,
// holds requests while it can, tells its facts through an outbox, and finds what is wanted again after a crash.
import type {
  AsOf,
  DeployFact,
  HostEvent,
  ObservedApp,
  ProcessState,
  WantedApp,
} from '../../../handlers/contract/host/host-calls.ts';
import type { Owner, Pool } from './life-pool.ts';

/** What a request came to. `cut`: its process ended under it. */
export type Answer = 'served' | 'stopped' | 'crashed' | 'never deployed' | 'not woken' | 'cut';

/** A request for the app. */
export interface AppRequest {
  answer: Answer | null;
}

/** What outlives a crash of the host: its database. */
export interface HostDatabase {
  /** The name of its outbox. */
  name: string;
  wanted: WantedApp | null;
  live: string | null;
  deployedAt: string | null;
  asleepSince: string | null;
  wokeAt: string | null;
  outbox: HostEvent[];
  seq: number;
  /** The one that is under way. */
  deploy: DeployFact | null;
  deploys: DeployFact[];
}

/** What the host needs of the world around it. */
export interface HostWorld {
  pool: Pool;
  now: () => string;
  /** Whether the release does not start. */
  broken: () => boolean;
  onFacts: () => void;
}

export class LifeHost {
  readonly #world: HostWorld;
  readonly #owner: Owner = { alive: true };
  readonly database: HostDatabase;
  process: ProcessState = 'none';
  #work: Promise<unknown> = Promise.resolve();
  #held: AppRequest[] = [];
  /** The sleep under way. */
  #parking: Promise<void> | null = null;

  /** A host that boots on a database: what ran starts again, what slept sleeps on, what was built is interrupted. */
  constructor(world: HostWorld, database: HostDatabase) {
    this.#world = world;
    this.database = database;
    const { wanted, live, deploy } = database;
    if (deploy !== null) this.#tellDeploy({ ...deploy, status: 'failed' });
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
    if (this.#parking !== null) return conflict('The app is being put to sleep');
    await this.#queue(async () => {
      const { wanted, live } = this.database;
      if (this.#asleep && live !== null && wanted!.desired_state === 'running' && this.process !== 'running')
        await this.#start();
      else await this.#reach();
    });
    return this.#applied();
  }

  async #sleepNow(): Promise<[number, unknown]> {
    if (this.#parking === null) {
      const why = this.#whyNoSleep();
      if (why !== null) return conflict(why);
      if (this.#asleep) return this.#applied();
      this.#park();
    }
    await this.#parking;
    return this.#applied();
  }

  /** The sweep: nobody has used the app, if nobody waits for it now. */
  sweep(): void {
    if (this.#parking === null && this.#whyNoSleep() === null && !this.#asleep && this.#held.length === 0)
      this.#park();
  }

  #park(): void {
    this.#parking = this.#queue(async () => {
      if (this.database.wanted!.desired_state === 'stopped') return;
      this.#mark(this.#world.now());
      this.#enter('idle');
    }).finally(() => {
      this.#parking = null;
    });
    this.#parking.catch(() => {});
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
    this.#tell({ type: 'app', app: this.observe() });
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

  /** Builds a release and makes it the live one. It is one that starts. */
  deploy(id: string): void {
    const { wanted } = this.database;
    const at = this.#world.now();
    const fact: DeployFact = {
      ...{ id, app_id: wanted!.id, sha: '', ref: '', message: '', author: '', trigger: 'push', steps: [] },
      ...{ can_roll_back: false },
      ...{ status: 'queued', error: null, created_at: at, started_at: null, finished_at: null },
    };
    this.#tellDeploy(fact);
    if (this.#asleep || this.#parking !== null)
      void this.#queue(async () => {
        if (!this.#asleep) return;
        this.#mark(null, this.#world.now());
        await this.#start();
      });
    const build = this.#world.pool.add(this.#owner, () => this.#tellDeploy({ ...fact, status: 'building' }));
    void build.then(() => this.#queue(() => this.#release(fact)));
  }

  /** The app's process is killed. */
  crash(): void {
    if (this.process !== 'running') return;
    this.#enter('crashed');
    this.#restartLater();
  }

  /** The host is killed, and everything in it. */
  end(): void {
    this.#world.pool.end(this.#owner);
    for (const request of this.#held) request.answer = 'cut';
    this.#held = [];
  }

  async #release(fact: DeployFact): Promise<void> {
    const serves = this.database.wanted!.desired_state === 'running';
    if (serves) {
      this.#enter('starting');
      await this.#step();
    }
    this.database.live = fact.id;
    this.database.deployedAt = this.#world.now();
    this.#tellDeploy({ ...fact, status: 'live' });
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
    if (this.database.wanted !== null) this.#tell({ type: 'app', app: this.observe() });
    if (process === 'running' && this.#asleep) this.#mark(null, this.#world.now());
    this.#admitAgain();
  }

  #admit(request: AppRequest): void {
    switch (this.process) {
      case 'running':
        request.answer = 'served';
        return;
      case 'starting':
        this.#held.push(request);
        return;
      case 'idle':
        this.#held.push(request);
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
    const held = this.#held;
    this.#held = [];
    for (const request of held) this.#admit(request);
  }

  #tellDeploy(deploy: DeployFact): void {
    this.database.deploy = deploy.status === 'live' || deploy.status === 'failed' ? null : deploy;
    this.database.deploys = [...this.database.deploys.filter(({ id }) => id !== deploy.id), deploy];
    this.#tell({ type: 'deploy', deploy });
  }

  #tell(fact: { type: 'deploy'; deploy: DeployFact } | { type: 'app'; app: ObservedApp }): void {
    this.database.outbox.push({ seq: ++this.database.seq, at: this.#world.now(), ...fact });
    this.#world.onFacts();
  }

  #step(): Promise<void> {
    return this.#world.pool.add(this.#owner, () => {});
  }

  /** Each piece of work begins when its turn comes, after the one before. */
  #queue(work: () => Promise<void>): Promise<void> {
    const done = this.#work.then(() => this.#step()).then(work);
    this.#work = done.catch(() => {});
    return done;
  }
}

function conflict(detail: string): [number, unknown] {
  return [409, { code: 'transition_conflict', detail }];
}
