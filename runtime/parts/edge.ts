// The parts that receive requests: the gateways of the edge, of the API and for other hosts, and the access log.
import { hostname } from 'node:os';
import type { KnownApps } from '../apps/known/known-apps.ts';
import { FLEET_HEALTH, sites } from '../apps/sites.ts';
import { liveClasses } from '../builds/release/object-classes.ts';
import type { Control } from '../control/control-plane.ts';
import { hostSocket } from '../control/host-server.ts';
import { Gateway } from '../edge/gateway.ts';
import { HealthChecks } from '../edge/health-checks.ts';
import { accessLines } from '../edge/log/access-line.ts';
import { AccessLog } from '../edge/log/access-log.ts';
import { Geo } from '../edge/log/geo.ts';
import type { RequestRecord } from '../edge/log/record.ts';
import { Upstream } from '../edge/upstream/upstream.ts';
import type { CallDepths } from '../hosts/call-depths.ts';
import type { Hosts } from '../hosts/hosts.ts';
import { privateGateway } from '../hosts/private-gateway.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Ui } from '../ui/ui.ts';
import type { Base } from './base.ts';

/** The parts behind the edge. */
interface Behind {
  apps: KnownApps;
  control: Control;
  ui: Ui | null;
  /** Null for the only host. */
  hosts: Hosts | null;
  depths: CallDepths;
  /** Returns the names of failed parts. */
  failing: () => string[];
  /** Returns the names of problems that `/ready` reports with status 200. */
  warnings: () => string[];
  telemetry: Telemetry;
}

export function makeEdge(
  { config, paths, wakeTimeoutMs }: Base,
  { apps, control, ui, hosts, depths, failing, warnings, telemetry }: Behind,
) {
  const healthChecks = new HealthChecks();
  const resolve = sites({
    baseDomain: config.RUNNER_BASE_DOMAIN,
    control,
    ui: ui ?? config.RUNNER_UI_URL,
    apps,
    hosts,
    failing,
    warnings,
    healthChecks,
    limits: {
      clientRpm: config.SERVICE_EDGE_RPM,
      gitRpm: config.SERVICE_EDGE_GIT_RPM,
      appRpm: config.SERVICE_EDGE_APP_RPM,
    },
  });
  const trustedProxies = config.RUNNER_TRUSTED_PROXIES;
  const api = new Gateway({
    resolve: resolve.api,
    isRpc: resolve.isRpcOfApi,
    trustedProxies,
    holdTimeoutMs: wakeTimeoutMs,
  });
  const accessLog = new AccessLog(paths.accessLog, accessLines(hosts === null ? null : hostname()));
  const geo = new Geo(config.RUNNER_GEOIP_DB);
  const edge = new Gateway({
    resolve: resolve.edge,
    isRpc: resolve.isRpcOfEdge,
    locate: (address) => geo.locate(address),
    isSampled: config.OTEL_EXPORTER_OTLP_ENDPOINT !== '',
    trustedProxies,
    holdTimeoutMs: wakeTimeoutMs,
  });
  const ended = (record: RequestRecord) => {
    accessLog.write(record);
    // Only the host that served the request records it: there, `record.home` is null. The app may have moved here since.
    const isHere = record.home === null && apps.get(record.site) !== undefined;
    if (isHere && record.path !== FLEET_HEALTH) telemetry.record(record);
  };
  edge.onEnd(ended);
  return { api, edge, healthChecks, accessLog, geo, fromHosts: hosts && fromHosts(hosts) };

  /** Returns the gateway for the other hosts. */
  function fromHosts(hosts: Hosts): Gateway {
    const calls = new Upstream({ socketPath: hostSocket(paths.control) });
    const gateway = new Gateway({
      resolve: privateGateway({
        ...{ homes: hosts.homes, peers: hosts.peers, key: hosts.key, here: hosts.here },
        ...{ has: (appId) => apps.get(appId) !== undefined, toApp: resolve.toApp, wake: resolve.wake },
        ask: () => hosts.askNow(),
        classes: (appId) => liveClasses(apps, appId),
        queues: () => apps.queues(),
        depths,
        hostCalls: { site: 'host', admit: () => ({ kind: 'forward', upstream: calls }) },
      }),
      isSampled: edge.isSampled,
      holdTimeoutMs: wakeTimeoutMs,
    });
    gateway.onEnd((record) => {
      if (record.site !== '') ended(record);
    });
    return gateway;
  }
}
