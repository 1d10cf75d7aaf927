// Routes requests to their site: the control plane, the control UI, git, or an app; and sets the rate limits of each.
import { isIP } from 'node:net';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { AppRoute } from '../../handlers/contract/host/hosts.ts';
import type { Answer, LocalAnswer } from '../edge/answers.ts';
import type { Refusal, RequestHead, Target } from '../edge/gateway.ts';
import type { HealthChecks } from '../edge/health-checks.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import type { SiteLimits } from '../edge/limits/rate-limits.ts';
import { inMaintenance } from '../edge/refusals.ts';
import type { Admission, Backend, Refused } from '../edge/upstream/backend.ts';
import type { Fleet } from '../fleets/life/fleet.ts';
import type { Hosts } from '../hosts/hosts.ts';
import type { KnownApps } from './known/known-apps.ts';

export interface SitesOptions {
  baseDomain: string;
  control: Backend;
  /** The control UI, or the URL of an external one. */
  ui: Backend | string;
  apps: KnownApps;
  /** The other hosts and their apps; null in a Cellar of one host. */
  hosts: Hosts | null;
  /** Returns the names of the parts that do not work now. */
  failing: () => string[];
  /** Returns the names of problems that `/ready` reports with status 200. */
  warnings: () => string[];
  healthChecks: HealthChecks;
  /** Default requests per minute at the edge; 0 for no limit. An app's own limits override them. */
  limits: { clientRpm: number; gitRpm: number; appRpm: number };
}

/** Health check of an app's process, at every app's address. Does not count as a use of the app. */
export const FLEET_HEALTH = '/.well-known/fleet/health';

/** `gitRpm` is multiplied by this for POST requests: a push makes one or two, a fetch one for each round of negotiation. */
const GIT_EXCHANGES = 8;

/**
 * Returns the routing functions of both listeners: `api` serves the control plane at every host name, and `edge` all
 * sites. `toApp` and `wake` are for requests that another host has passed on. `toApp` routes one to an app of this host
 * or to one of its previews, without limits; `wake` wakes an app.
 */
export function sites({
  baseDomain,
  control,
  ui,
  apps,
  hosts,
  failing,
  warnings,
  healthChecks,
  limits,
}: SitesOptions): {
  api: (head: RequestHead) => Target;
  edge: (head: RequestHead) => Target;
  /** Returns whether refusals of a request by the gateway of `api` must be JSON-RPC. */
  isRpcOfApi: (head: RequestHead) => boolean;
  /** Returns whether refusals of a request by the gateway of `edge` must be JSON-RPC. */
  isRpcOfEdge: (head: RequestHead) => boolean;
  toApp: (head: RequestHead, appId: string, previewHost: string | null) => Target;
  wake: (appId: string) => Target;
} {
  const { clientRpm } = limits;
  const git: SiteLimits = { site: 'git', clientRpm: limits.gitRpm, appRpm: 0 };
  /** Git's first requests carry no credentials and get a 401. They are counted separately, and do not use up git's limit. */
  const gitChallenges: SiteLimits = { ...git, countedAs: 'git challenges' };
  /**
   * POST requests are counted separately, with a higher limit: git shows the reason of a refusal only for the first request
   * of an operation, a GET.
   */
  const gitExchanges: SiteLimits = {
    ...git,
    countedAs: 'git exchanges',
    clientRpm: limits.gitRpm * GIT_EXCHANGES,
  };
  const gitLimits = ({ headers, method }: RequestHead): SiteLimits => {
    if (headerValue(headers, 'authorization') === undefined) return gitChallenges;
    return method === 'POST' ? gitExchanges : git;
  };
  const controlHosts = new Map<string, SiteLimits>([
    [baseDomain, { site: 'control', clientRpm, appRpm: 0 }],
    [`api.${baseDomain}`, { site: 'api', clientRpm, appRpm: 0 }],
    [`git.${baseDomain}`, git],
  ]);
  const fallback: SiteLimits = { site: 'fallback', clientRpm, appRpm: 0 };
  const toControl: Target = { kind: 'proxy', backend: control };
  const toUi: Target =
    typeof ui === 'string'
      ? { kind: 'respond', respond: () => ({ status: 302, headers: { location: ui }, body: '' }) }
      : { kind: 'proxy', backend: ui };
  const health: Target = { kind: 'respond', respond: () => json(200, { status: 'ok' }) };
  const ready: Target = {
    kind: 'respond',
    respond: (_head, client) => {
      healthChecks.recordCheck(client);
      const names = failing();
      if (names.length > 0) return json(503, { status: 'failing', failing: names }, { 'retry-after': '1' });
      const warned = warnings();
      return json(200, { status: 'ready', ...(warned.length > 0 && { warnings: warned }) });
    },
  };

  const wantedOf = ({ site }: Fleet): WantedApp => apps.get(site)!.wanted;
  const awake: Admission = { kind: 'answer', answer: json(200, { status: 'ok' }) };
  // A backend, so that the gateway queues these requests like others, within the same limits.
  const wakeFleet = (fleet: Fleet | undefined): Target => {
    // An app in maintenance stays asleep: the edge answers without a process.
    const wakes = fleet !== undefined && !wantedOf(fleet).maintenance;
    const admit = () => (wakes && fleet.wake()) || awake;
    return { kind: 'proxy', backend: { site: fleet?.site ?? 'control', admit } };
  };
  const wakeAt = ({ headers }: RequestHead): Target => {
    const host = hostnameOf(headerValue(headers, 'x-forwarded-host') ?? '');
    const fleet = apps.resolve(host);
    if (fleet !== undefined || controlHosts.has(host)) return wakeFleet(fleet);
    if (hosts === null) return { kind: 'respond', respond: () => unknownHost(host) };
    const refusal: Refused = { kind: 'refuse', ...unknownHost(host).refusal };
    return { kind: 'proxy', backend: hosts.unknown(host, refusal, ({ id }) => hosts.waking(id)) };
  };

  const api = (head: RequestHead): Target => {
    const path = normalized(head.path);
    const { method } = head;
    if (path === '/health') return health;
    if (path === '/ready') return ready;
    // Answered here, so that it works without the control plane.
    if (path === '/v1/edge/wake' && method === 'GET') return wakeAt(head);
    return toControl;
  };
  const base = ({ path }: RequestHead): Target => {
    if (path === '/health') return health;
    return path === '/ready' ? ready : toUi;
  };
  const edge = (head: RequestHead): Target => {
    const fleet = apps.resolve(head.host);
    if (fleet !== undefined) {
      const app = apps.get(fleet.site)!;
      return toFleet(head, app.fleetFor(head.headers), limitsOf(app.id, head, app.wanted.limits));
    }
    const own = controlHosts.get(head.host);
    if (own !== undefined) {
      const target = head.host === baseDomain ? base(head) : api(head);
      return { ...target, limits: own === git ? gitLimits(head) : own };
    }
    if (hosts === null) return { kind: 'respond', respond: () => unknownHost(head.host), limits: fallback };
    // Not every load balancer can send a host name with its health check.
    if (head.path === '/ready' && isIP(head.host) !== 0) return { ...ready, limits: fallback };
    const elsewhere = hosts.resolve(head.host);
    if (elsewhere === null) {
      const refusal: Refused = { kind: 'refuse', ...unknownHost(head.host).refusal };
      return { kind: 'proxy', backend: hosts.unknown(head.host, refusal), limits: fallback };
    }
    const { route, backend } = elsewhere;
    return { kind: 'proxy', backend, limits: limitsOf(route.id, head, route.limits) };
  };
  const limitsOf = (site: string, { path }: RequestHead, own: AppRoute['limits']): SiteLimits => ({
    site,
    clientRpm: own.clientRpm ?? clientRpm,
    // `appRpm` does not apply to health checks of the app's process.
    appRpm: path === FLEET_HEALTH ? 0 : (own.appRpm ?? limits.appRpm),
  });
  const toFleet = ({ path }: RequestHead, fleet: Fleet, limits: SiteLimits): Target => {
    if (path === FLEET_HEALTH) return { kind: 'respond', respond: () => fleetHealth(fleet), limits };
    const { maintenance } = wantedOf(fleet);
    if (!maintenance) return { kind: 'proxy', backend: fleet, limits };
    return { kind: 'respond', respond: () => ({ refusal: inMaintenance(maintenance.html) }), limits };
  };
  const isRpc = ({ method, path }: RequestHead) => method === 'POST' && path === '/rpc';
  return {
    api,
    edge,
    isRpcOfApi: isRpc,
    isRpcOfEdge: (head) => isRpc(head) && (head.host === baseDomain || head.host === `api.${baseDomain}`),
    toApp: (head, appId, previewHost) => {
      const fleet = apps.fleetAt(appId, previewHost, head.headers);
      if (fleet === undefined) return { kind: 'respond', respond: () => unknownHost(head.host) };
      const site = previewHost === null ? appId : fleet.site;
      return toFleet(head, fleet, { site, clientRpm: 0, appRpm: 0 });
    },
    wake: (appId) => wakeFleet(apps.get(appId)?.fleet),
  };
}

/** Normalizes a path as the control plane does, so that both see the same path: resolves dot segments, also encoded ones. */
function normalized(path: string): string {
  return /[.\\]|%2e/i.test(path) ? new URL(`http://control${path}`).pathname : path;
}

/** Returns the first host name in a proxy's header, without port and final dot. */
function hostnameOf(forwarded: string): string {
  return forwarded.split(',')[0]!.trim().toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '');
}

function unknownHost(host: string): { refusal: Refusal } {
  return {
    refusal: {
      status: 404,
      code: 'unknown_host',
      reason: 'unknown_host',
      detail: `No app answers at ${host || 'this host'}.`,
    },
  };
}

/** Asks the process for its health. Neither wakes the app nor counts as activity. */
async function fleetHealth(fleet: Fleet): Promise<LocalAnswer> {
  return (await fleet.healthy())
    ? json(200, { status: 'ok', state: fleet.state })
    : json(503, { status: 'failing', state: fleet.state }, { 'retry-after': '1' });
}

function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
}
