// Simulates the hosts of one Cellar without a control plane. Each has its two gateways, and its list of known hosts and routes.
// The home of an app is the host that runs it.
import type { TestContext } from 'node:test';
import type { AppRoute, KnownHost } from '../../../handlers/contract/host/hosts.ts';
import { Gateway, type Target } from '../../../runtime/edge/gateway.ts';
import type { RequestRecord } from '../../../runtime/edge/log/record.ts';
import type { Backend } from '../../../runtime/edge/upstream/backend.ts';
import { Upstream } from '../../../runtime/edge/upstream/upstream.ts';
import { CallDepths } from '../../../runtime/hosts/call-depths.ts';
import type { ConsumedQueues } from '../../../runtime/hosts/consumed-queues.ts';
import { Homes } from '../../../runtime/hosts/homes.ts';
import { Hosts } from '../../../runtime/hosts/hosts.ts';
import { privateGateway } from '../../../runtime/hosts/private-gateway.ts';

export const CLUSTER_KEY = 'c1'.repeat(32);
export const APP = 'a'.repeat(16);

/** Returns a backend that sends all requests to a unix socket. */
export function backendOf(socketPath: string, site = APP): Backend {
  const upstream = new Upstream({ socketPath });
  return { site, admit: () => ({ kind: 'forward', upstream }) };
}

export class TestHost {
  readonly name: string;
  readonly homes: Homes;
  readonly hosts: Hosts;
  readonly edge: Gateway;
  fromHosts: Gateway;
  /** Backends of the apps that run on this host, by app id. */
  readonly apps = new Map<string, Backend>();
  readonly records: RequestRecord[] = [];
  readonly depths = new CallDepths();
  /** Queues that the apps on this host consume. */
  queues: ConsumedQueues[] = [];
  /** What this host answers when another one asks for an app's Durable Object classes: their unique keys, by class name. */
  classes: Record<string, string> = {};
  readonly #hostCalls: Backend;
  readonly #holdTimeoutMs: number;
  readonly #shareMax: number | undefined;
  /** Port of the edge gateway. */
  port = 0;
  /** Address of the private gateway, with its port. */
  address = '';

  constructor(
    name: string,
    {
      hostCalls = backendOf('/nowhere', 'host'),
      holdTimeoutMs = 10_000,
      shareMax = undefined as number | undefined,
    } = {},
  ) {
    this.name = name;
    this.homes = new Homes(name, 'test');
    const here = (appId: string) => this.apps.get(appId);
    this.hosts = new Hosts({ homes: this.homes, baseDomain: 'test', clusterKey: CLUSTER_KEY, here });
    this.edge = new Gateway({ resolve: ({ host }) => this.#resolve(host), holdTimeoutMs });
    this.edge.onEnd((record) => this.records.push(record));
    this.#hostCalls = hostCalls;
    this.#holdTimeoutMs = holdTimeoutMs;
    this.#shareMax = shareMax;
    this.fromHosts = this.#private();
  }

  /** @param address IP address of the private gateway */
  async start(address: string): Promise<void> {
    this.port = await this.edge.listen(0, '127.0.0.1');
    this.address = `${address}:${await this.fromHosts.listenHosts(0, address)}`;
  }

  async close(): Promise<void> {
    await Promise.all([this.edge.close(0), this.fromHosts.close(0)]);
    this.hosts.close();
  }

  /** Restarts the private gateway at the same address. This closes all connections from other hosts. */
  async restart(): Promise<void> {
    const [host, port] = this.address.split(':') as [string, string];
    await this.fromHosts.close(0);
    this.fromHosts = this.#private();
    await this.fromHosts.listenHosts(Number(port), host);
  }

  get known(): KnownHost {
    return { id: this.name, name: this.name, address: this.address, version: '1.0.0', state: 'active' };
  }

  /** Adds an app, as a move to this host does. */
  add(appId: string, backend: Backend): void {
    this.apps.set(appId, backend);
    this.hosts.peers.announce();
  }

  #private(): Gateway {
    const { homes, hosts, apps } = this;
    const gateway = new Gateway({
      resolve: privateGateway({
        ...{ homes, peers: hosts.peers, key: hosts.key, here: hosts.here },
        has: (appId) => apps.has(appId),
        toApp: (_head, appId) => ({
          kind: 'proxy',
          backend: apps.get(appId)!,
          limits: { site: appId, clientRpm: 0, appRpm: 0 },
        }),
        wake: () => ({ kind: 'respond', respond: () => ({ status: 200, headers: {}, body: 'awake' }) }),
        ask: () => hosts.askNow(),
        classes: async () => this.classes,
        queues: () => this.queues,
        depths: this.depths,
        hostCalls: this.#hostCalls,
      }),
      holdTimeoutMs: this.#holdTimeoutMs,
      ...(this.#shareMax !== undefined && { shareMax: this.#shareMax }),
    });
    gateway.onEnd((record) => {
      // A record without a site is that of a ping between hosts.
      if (record.site !== '') this.records.push(record);
    });
    return gateway;
  }

  #resolve(host: string): Target {
    const found = this.hosts.resolve(host);
    if (found === null) {
      const detail = `No app answers at ${host}.`;
      const refusal = { kind: 'refuse', status: 404, code: 'unknown_host', detail } as const;
      return { kind: 'proxy', backend: this.hosts.unknown(host, refusal) };
    }
    const { route, backend } = found;
    const limits = { site: route.id, clientRpm: 0, appRpm: 0 };
    return { kind: 'proxy', backend: this.apps.get(route.id) ?? backend, limits };
  }
}

/** Returns the route of the app `shop`. */
export function routeOf(home: string, given: Partial<AppRoute> = {}): AppRoute {
  const limits = { clientRpm: null, appRpm: null };
  const app = { id: APP, slug: 'shop', owner: 'o', hostnames: [], limits, storage: 'bucket' as const };
  return { ...app, home, generation: 1, ...given };
}

/** Starts hosts that do not know each other yet. `learn` gives each host the list of all hosts and the routes. */
export async function startHosts(
  t: TestContext,
  names: string[],
  options?: ConstructorParameters<typeof TestHost>[1],
) {
  const started = names.map((name) => new TestHost(name, options));
  t.after(() => Promise.all(started.map((host) => host.close())));
  for (const [at, host] of started.entries()) await host.start(`127.0.0.${at + 1}`);
  const learn = (routes: AppRoute[], hosts = started.map(({ known }) => known)) => {
    for (const { homes } of started) homes.take({ hosts, revision: 1, whole: true, routes, deleted: [] });
  };
  return { started, learn };
}

/** Starts two hosts that know each other. Both know that the second is the home of the app `shop`. */
export async function twoHosts(t: TestContext, options?: ConstructorParameters<typeof TestHost>[1]) {
  const { started, learn } = await startHosts(t, ['entry', 'home'], options);
  const [entry, home] = started as [TestHost, TestHost];
  learn([routeOf('home')]);
  return { entry, home, learn };
}
