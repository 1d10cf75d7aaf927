// A host for one app that keeps to the rules of the real one: it fences by generation, does one thing after another,
// holds requests while it can, tells its facts through an outbox, and finds what is wanted again after a crash.
import type {
  AsOf,
  DeployFact,
  HostEvent,
  ListedApp,
  ObservedApp,
  ProcessState,
  WantedApp,
} from '../../../handlers/contract/host/host-calls.ts';
import type { Owner, Pool } from './life-pool.ts';

type Process = 'none' | 'starting' | 'running' | 'asleep' | 'stopped' | 'crashed';

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
  /** Has the control plane wake the app. Rejects when it says no. */
  wake: () => Promise<void>;
  onFacts: () => void;
}

export class LifeHost {
  readonly #world: HostWorld;
  readonly #owner: Owner = { alive: true };
  readonly database: HostDatabase;
  process: Process = 'none';
  lastRequestAt: string | null = null;
  #work: Promise<unknown> = Promise.resolve();
  #held: AppRequest[] = [];
  /** The wake under way. One that the app has come of is over, whatever is said of it later. */
  #waking: symbol | null = null;

  /** A host that boots on a database: what ran starts again, what slept sleeps on, what was built is interrupted. */
  constructor(world: HostWorld, database: HostDatabase) {
    this.#world = world;
    this.database = database;
    const { wanted, live, deploy } = database;
    if (deploy !== null) this.#tellDeploy({ ...deploy, status: 'failed' });
    if (wanted === null || live === null) return;
    if (wanted.desired_state === 'stopped') this.#enter('stopped');
    else if (wanted.asleep) this.#enter('asleep');
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
    if (method === 'GET') return [200, this.observe()];
    if (path === '/deploys') return [200, { as_of: this.asOf, items: this.#known(body!) }];
    const sent = JSON.parse(body!) as WantedApp;
    if (sent.generation < (wanted?.generation ?? 0)) return [409, { code: 'stale_generation' }];
    this.database.wanted = sent;
    await this.#queue(() => this.#reach());
    return [200, { app: this.observe(), as_of: this.asOf }];
  }

  #known(body: string): DeployFact[] {
    const asked = (JSON.parse(body) as { id: string }[]).map(({ id }) => id);
    return this.database.deploys.filter(({ id }) => asked.includes(id));
  }

  observe(): ListedApp {
    const { wanted, live, deployedAt } = this.database;
    const app: ObservedApp = {
      id: wanted!.id,
      generation: wanted!.generation,
      process_state: stateOf(this.process),
      live_deploy_id: live,
      deployed_at: deployedAt,
      last_error: this.process === 'crashed' ? 'it throws' : null,
    };
    return { ...app, last_activity_at: this.lastRequestAt, open_streams: this.#held.length };
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
    const { desired_state, asleep } = this.database.wanted!;
    const serves = desired_state === 'running' && !asleep;
    if (serves) {
      this.#enter('starting');
      await this.#step();
    }
    this.database.live = fact.id;
    this.database.deployedAt = this.#world.now();
    this.#tellDeploy({ ...fact, status: 'live' });
    if (!serves) this.#enter(asleep ? 'asleep' : 'stopped');
    else if (this.#world.broken()) this.#failed();
    else this.#enter('running');
  }

  async #reach(): Promise<void> {
    const { wanted, live } = this.database;
    if (live === null) return;
    if (wanted!.desired_state === 'stopped') this.#enter('stopped');
    else if (wanted!.asleep) this.#enter('asleep');
    else if (this.process !== 'running') await this.#start();
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
      if (this.process === 'crashed') await this.#start();
    };
    void this.#world.pool.add(this.#owner, () => void this.#queue(again));
  }

  #enter(process: Process): void {
    const before = this.process;
    this.process = process;
    if (before === process) return;
    if (this.database.wanted !== null) this.#tell({ type: 'app', app: this.observe() });
    if (process === 'running') this.#waking = null;
    if (process !== 'asleep') this.#admitAgain();
  }

  #admit(request: AppRequest): void {
    switch (this.process) {
      case 'running':
        this.lastRequestAt = this.#world.now();
        request.answer = 'served';
        return;
      case 'starting':
        this.#held.push(request);
        return;
      case 'asleep':
        this.#held.push(request);
        if (this.#waking === null) void this.#wake();
        return;
      case 'none':
        request.answer = 'never deployed';
        return;
      default:
        request.answer = this.process;
    }
  }

  #admitAgain(): void {
    const held = this.#held;
    this.#held = [];
    for (const request of held) this.#admit(request);
  }

  /** Once for all who wait: if it fails they are told so. */
  async #wake(): Promise<void> {
    const waking = Symbol('wake');
    this.#waking = waking;
    await this.#world.wake().catch(() => {});
    if (!this.#owner.alive || this.#waking !== waking) return;
    this.#waking = null;
    if (this.process === 'asleep') {
      for (const request of this.#held) request.answer = 'not woken';
      this.#held = [];
    } else this.#admitAgain();
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

function stateOf(process: Process): ProcessState {
  return process === 'asleep' ? 'stopped' : process;
}
