// The parts that receive requests: the gateways of the edge and of the API, Caddy in front, and the access log.
import type { KnownApps } from '../apps/known-apps.ts';
import { FLEET_HEALTH, sites } from '../apps/sites.ts';
import type { Control } from '../control/control-plane.ts';
import { Gateway } from '../edge/gateway.ts';
import { ACCESS_LINES } from '../edge/log/access-line.ts';
import { AccessLog } from '../edge/log/access-log.ts';
import { Geo } from '../edge/log/geo.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import type { Ui } from '../ui/ui.ts';
import type { Base } from './base.ts';

/** The parts behind the edge. */
interface Behind {
  apps: KnownApps;
  control: Control;
  ui: Ui | null;
  /** Names of failed parts. */
  failing: () => string[];
  /** Names of warnings while everything serves. */
  warnings: () => string[];
  telemetry: Telemetry;
}

export function makeEdge(
  { config, paths, wakeTimeoutMs }: Base,
  { apps, control, ui, failing, warnings, telemetry }: Behind,
) {
  const resolve = sites({
    baseDomain: config.RUNNER_BASE_DOMAIN,
    control,
    ui: ui ?? config.RUNNER_UI_URL,
    apps,
    failing,
    warnings,
    limits: {
      clientRpm: config.SERVICE_EDGE_RPM,
      gitRpm: config.SERVICE_EDGE_GIT_RPM,
      appRpm: config.SERVICE_EDGE_APP_RPM,
    },
  });
  const trustedProxies = config.RUNNER_TRUSTED_PROXIES;
  const api = new Gateway({ resolve: resolve.api, trustedProxies, holdTimeoutMs: wakeTimeoutMs });
  const accessLog = new AccessLog(paths.accessLog, ACCESS_LINES);
  const geo = new Geo(config.RUNNER_GEOIP_DB);
  const edge = new Gateway({
    resolve: resolve.edge,
    locate: (address) => geo.locate(address),
    isSampled: config.OTEL_EXPORTER_OTLP_ENDPOINT !== '',
    trustedProxies,
    holdTimeoutMs: wakeTimeoutMs,
  });
  edge.onEnd((record) => {
    accessLog.write(record);
    if (apps.get(record.site) && record.path !== FLEET_HEALTH) telemetry.record(record);
  });
  return { api, edge, accessLog, geo };
}
