// A fake host for the control plane's tests: implements the HOST binding, records calls, and fails on request. The
// end-to-end tests use the real host.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HostStats } from '../../../handlers/contract/admin.ts';
import type { DomainLookup } from '../../../handlers/contract/apps/domains.ts';
import type { AsOf, DeployFact, ObservedApp, WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import type { DescribedRelease, KeptPlaces } from '../../../handlers/contract/host/host-releases.ts';
import { HOST_CALL_BYTES, HOST_COMMIT_BYTES, WANTED_BYTES } from '../../../handlers/contract/sizes.ts';

/** The figures of an idle host. */
export const HOST_STATS: HostStats = {
  started_at: '2026-01-01T00:00:00.000Z',
  rss_bytes: 1,
  event_loop_delay: { p50_ms: 0, p99_ms: 0, max_ms: 0, over_s: 60 },
  cells: { running: 0, memory_bytes: 0, open_streams: 0 },
  apps: [],
  wakes: { count: 0, failed: 0, p50_ms: null, p99_ms: null },
  memory: { used_bytes: 1, limit_bytes: 2, over: false },
  disk: { free_bytes: 1, floor_bytes: 1, short: false },
  queues: { deploys_running: 0, deploys_waiting: 0, starts_waiting: 0, outbox: 0, outbox_refused: 0 },
  telemetry: { waiting: {}, dropped: {}, files: {}, restarts: 0 },
  control_plane: { answers: true, restarts: 0 },
  snapshots: {
    ...{ last_at: null, last_written_bytes: null, last_bytes: null, problem: null, under_way: null },
    verified: { at: null, snapshots: 0, packs: 0, bytes: 0, objects: [], damaged: [] },
    newest_damaged: false,
  },
  bucket: null,
};

export interface Sent {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
}

const NO_PLACES: Omit<KeptPlaces, 'app_id'> = {
  databases: [],
  namespaces: [],
  buckets: [],
  vector_indexes: [],
  workflows: [],
  producers: [],
  consumers: [],
};

/** Stores the newest wanted state of each app and refuses older generations. */
export class TestHost {
  readonly sent: Sent[] = [];
  readonly wanted = new Map<string, WantedApp>();
  /** Overrides of observed state, by app. */
  readonly facts = new Map<string, Partial<ObservedApp>>();
  /** The position of the newest fact in the host's outbox. */
  asOf: AsOf = { outbox: 'one', seq: 0 };
  /** Delays the answers to wanted states and to uploads until this resolves. */
  held: Promise<void> = Promise.resolve();
  /** Known deploys, by id. */
  readonly deploys = new Map<string, DeployFact>();
  readonly logs = new Map<string, string>();
  /** Status and body of the answer to `POST /ui/git-auth`. A control UI outside of this machine checks git users there. */
  controlUi: [number, unknown] = [404, {}];
  /** Answers lookups of hostnames. */
  lookUp: (hostname: string) => Promise<DomainLookup> = () => Promise.reject(new Error('no name server'));
  /** The storage of every app. A missing field means that the app has no such storage. */
  kept: Partial<Omit<KeptPlaces, 'app_id'>> | null = null;
  /** The live release of every app. */
  release: DescribedRelease | null = null;
  /** While set, starts, sleeps and hand-overs are refused for this reason. */
  refusal: string | null = null;
  /** Statuses that `prepare` and `hand-over` answer in place of 204. */
  readonly moves = new Map<string, number>();
  /** While set, every call fails with this status. */
  failing: number | null = null;
  /** Number of calls whose bodies have begun to arrive. */
  begun = 0;

  readonly handle = (request: IncomingMessage, response: ServerResponse): void => {
    void this.#answer(request, response);
  };

  /** The highest generation of all wanted states. */
  get highestGeneration(): number {
    return Math.max(0, ...[...this.wanted.values()].map(({ generation }) => generation));
  }

  /** Returns the calls to a path, newest last. */
  calls(method: string, path: string): Sent[] {
    return this.sent.filter((call) => call.method === method && call.path === path);
  }

  /** Returns the observed state of an app. @param sleeps marks the app as asleep or awake from now on; default: no change */
  observed(id: string, sleeps?: boolean): ObservedApp {
    const { generation, desired_state } = this.wanted.get(id)!;
    const { asleep_since = null, process_state: state } = this.facts.get(id) ?? {};
    // A release that fails to start does not wake its app.
    if (sleeps !== undefined && sleeps !== (asleep_since !== null) && state !== 'crashed')
      this.#mark(id, sleeps);
    const runs = this.facts.get(id)?.live_deploy_id ? 'running' : 'none';
    const process_state = desired_state === 'stopped' ? 'stopped' : runs;
    return {
      id,
      generation,
      process_state,
      live_deploy_id: null,
      deployed_at: null,
      last_error: null,
      asleep_since: null,
      woke_at: null,
      ...this.facts.get(id),
    };
  }

  #mark(id: string, sleeps: boolean): void {
    const at = new Date().toISOString();
    const marks = sleeps ? { asleep_since: at } : { asleep_since: null, woke_at: at };
    this.facts.set(id, { ...this.facts.get(id), ...marks });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) if (chunks.push(chunk) === 1) this.begun++;
    } catch {
      // The control plane has aborted the call.
      return;
    }
    const body = Buffer.concat(chunks).toString('utf8');
    const path = request.url ?? '';
    const limit = path.includes('/source/')
      ? HOST_COMMIT_BYTES
      : request.method === 'PUT'
        ? WANTED_BYTES
        : HOST_CALL_BYTES;
    this.sent.push({ method: request.method!, path, headers: request.headers, body });
    if (this.failing !== null) {
      response.writeHead(this.failing).end(this.failing === 429 ? '{"code":"rate_limited"}' : undefined);
      return;
    }
    if (Buffer.byteLength(body) > limit) {
      response.writeHead(413).end();
      return;
    }
    const [, first, id, part, deployId] = path.split('?')[0]!.split('/');
    const send = (status: number, value: unknown) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    if (first === 'git') {
      response.writeHead(200, { 'content-type': 'application/x-git' }).end(`git ${path} ${body}`);
    } else if (first === 'ui') send(...this.controlUi);
    else if (first === 'deploys') {
      const asked = JSON.parse(body) as { id: string }[];
      send(200, { as_of: this.asOf, items: asked.flatMap(({ id }) => this.deploys.get(id) ?? []) });
    } else if (first === 'disk') send(200, { full: null });
    else if (first === 'stats') send(200, HOST_STATS);
    else if (path.startsWith('/uploads/versions')) {
      await this.held;
      send(200, { version: { id: 'a'.repeat(16) }, secrets: {} });
    } else if (first === 'places' && this.kept !== null)
      send(
        200,
        (JSON.parse(body) as string[]).map((app_id) => ({ app_id, ...NO_PLACES, ...this.kept })),
      );
    else if (part === 'buckets' && this.kept !== null) {
      const sized = (this.kept.buckets ?? []).map(({ id, binding }) => ({
        bucket: id,
        binding,
        objects: 2,
        bytes: 30,
      }));
      send(200, sized);
    } else if (part === 'release' && this.release !== null) send(200, this.release);
    else if (first !== 'apps') send(404, { code: 'route_not_found' });
    else if (id === undefined) {
      const items = [...this.wanted.keys()].map((app) => this.observed(app));
      send(200, { as_of: this.asOf, highest_generation: this.highestGeneration, items });
    } else if (part === 'domain') {
      const hostname = new URL(path, 'http://host').searchParams.get('hostname')!;
      const found = await this.lookUp(hostname).catch(() => null);
      send(found === null ? 500 : 200, found);
    } else if (part === 'deploys' && deployId !== undefined) {
      const log = this.logs.get(deployId);
      if (log === undefined) response.writeHead(204).end();
      else send(200, { text: log });
    } else if (this.refusal !== null && ['start', 'sleep', 'hand-over'].includes(part!)) {
      send(409, { code: 'transition_conflict', detail: this.refusal });
    } else if (part === 'start' || part === 'sleep') {
      send(200, { app: this.observed(id, part === 'sleep'), as_of: this.asOf });
    } else if (part === 'prepare' || part === 'hand-over') {
      response.writeHead(this.moves.get(part) ?? 204).end();
    } else if (path.endsWith('/connection/key')) send(200, { secret: 'a-secret-of-sixteen-or-more' });
    else if (part === 'renew') send(200, { in_effect: true, problem: null });
    else if (part === 'release') response.writeHead(204).end();
    else if (part !== undefined) send(404, { code: 'route_not_found' });
    else await this.#transition(request.method!, id, new URL(path, 'http://host'), body, send);
  }

  async #transition(
    method: string,
    id: string,
    url: URL,
    body: string,
    send: (status: number, value: unknown) => void,
  ): Promise<void> {
    const wanted = method === 'PUT' ? (JSON.parse(body) as WantedApp) : null;
    const generation = wanted?.generation ?? Number(url.searchParams.get('generation'));
    if (generation < (this.wanted.get(id)?.generation ?? 0)) send(409, { code: 'stale_generation' });
    else if (wanted === null) {
      this.wanted.delete(id);
      send(200, {});
    } else {
      const before = this.wanted.get(id)?.desired_state;
      this.wanted.set(id, wanted);
      if (before === 'stopped' && wanted.desired_state === 'running') this.#mark(id, false);
      await this.held;
      send(200, { app: this.observed(id), as_of: this.asOf });
    }
  }
}
