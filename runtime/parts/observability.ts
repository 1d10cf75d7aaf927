// Telemetry and alerts for the owners of apps, and the sender of e-mails that alerts and invites share.
import { type AlertedApp, Alerts } from '../alerts/alerts.ts';
import { BucketOutage } from '../alerts/bucket-outage.ts';
import { Deliveries, type DeliveriesOptions } from '../alerts/deliveries.ts';
import { HostOutages } from '../alerts/host-outages.ts';
import { bucketPlace } from '../bucket/place.ts';
import { isLocal } from '../config.ts';
import { keptSecret } from '../disk/data-directory.ts';
import type { Level } from '../log.ts';
import { Mailer } from '../mail/mail.ts';
import { AppReports, type AppReportsOptions } from '../telemetry/app-reports.ts';
import { LogFilter } from '../telemetry/logs/log-filter.ts';
import type { Source } from '../telemetry/logs/log-lines.ts';
import { Telemetry } from '../telemetry/telemetry.ts';
import { versionsIn } from '../uploads/version-files.ts';
import type { Base } from './base.ts';

export type ObservabilityParts = ReturnType<typeof makeObservability>;

/**
 * Makes these parts.
 * @param describe returns an app as alerts show it; null for an app that this host does not have
 * @param isApp whether a host name is that of an app of this host
 * @param reporting.send sends reports of apps to the control plane
 */
export function makeObservability(
  { config, paths, store, reachable, known, homes }: Base,
  describe: (appId: string) => AlertedApp | null,
  {
    isApp,
    ownerOf,
    ...reporting
  }: Pick<AppReportsOptions, 'send' | 'isPreview'> &
    Pick<DeliveriesOptions, 'ownerOf'> & { isApp: (hostname: string) => boolean },
) {
  const telemetry = new Telemetry(
    {
      directory: paths.telemetry,
      retentionDays: config.RUNNER_TELEMETRY_RETENTION_DAYS,
      otlp:
        config.OTEL_EXPORTER_OTLP_ENDPOINT === ''
          ? null
          : { endpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT, headers: config.OTEL_EXPORTER_OTLP_HEADERS },
      bucket: bucketPlace(config),
      host: homes?.self ?? null,
      fleetLog: config.RUNNER_FLEET_LOG,
      releases: paths.allReleases,
      versions: versionsIn(paths.uploads),
    },
    {
      onErrors: (groups) => void alerts.reportErrors(groups),
      onReports: (reports, dropped) => appReports.take(reports, dropped),
    },
  );
  const alerts = new Alerts({
    ...{ store, key: keptSecret(paths.alertKey), describe },
    deployUrl: (slug, deployId) =>
      known.addresses && `${known.addresses.ui}/apps/${slug}/deploys/${deployId}`,
  });
  const mailer = new Mailer(config.RUNNER_SMTP_URL, config.RUNNER_SMTP_FROM);
  const deliveries = new Deliveries({
    ...{ alerts, store, mailer, ownerOf },
    reach: {
      addresses: reachable,
      isLocalApp: (url) => {
        if (!isLocal(config.RUNNER_BASE_DOMAIN) || known.addresses === null) return false;
        const app = new URL(known.addresses.app.replace('{slug}', 'app'));
        return (
          url.protocol === 'http:' && app.protocol === 'http:' && url.port === app.port && isApp(url.hostname)
        );
      },
    },
  });
  const words = LogFilter.parse(config.RUNNER_FLEET_LOG);
  /** Writes a line into an app's log, if `RUNNER_FLEET_LOG` lets its source and level pass. */
  const say = (source: Source, appId: string, level: Level, text: string, deployId: string | null = null) => {
    if (words.passes(source, level)) telemetry.say(appId, { at: Date.now(), source, level, text, deployId });
  };
  const appReports = new AppReports({
    ...reporting,
    say: (appId, level, text) => say('supervisor', appId, level, text),
  });
  const bucketOutage = new BucketOutage(alerts);
  const hostOutages = new HostOutages(alerts);
  return { appReports, telemetry, alerts, bucketOutage, hostOutages, deliveries, mailer, say };
}
