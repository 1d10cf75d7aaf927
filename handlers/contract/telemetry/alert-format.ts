// Formats of the messages of alerts. `formatOf` chooses the format from the settings and the address of an alert.

/** `auto`: recognised from the address. */
export const ALERT_FORMATS = ['auto', 'json', 'slack', 'discord', 'ntfy', 'teams'] as const;
export type AlertFormat = (typeof ALERT_FORMATS)[number];

/** A format of messages that are sent by HTTP. */
export type WebhookFormat = Exclude<AlertFormat, 'auto'>;

/** Hostnames of services that receive alerts, each with the format that the service accepts. */
const HOSTS: readonly (readonly [RegExp, WebhookFormat])[] = [
  [/^hooks\.slack(-gov)?\.com$/, 'slack'],
  [/^(.+\.)?discord(app)?\.com$/, 'discord'],
  [/^ntfy\.sh$/, 'ntfy'],
  [/\.webhook\.office\.com$|\.logic\.azure\.com$|\.api\.powerplatform\.com$/, 'teams'],
];

/** Returns the e-mail address of an alert; null when it has a webhook. */
export function recipientOf(url: string): string | null {
  const { protocol, pathname } = new URL(url);
  return protocol === 'mailto:' ? pathname : null;
}

/** Returns the format of an alert's messages. An e-mail address has only one format. */
export function formatOf({ url, format }: { url: string; format: AlertFormat }): WebhookFormat | 'email' {
  if (recipientOf(url) !== null) return 'email';
  if (format !== 'auto') return format;
  const { hostname } = new URL(url);
  return HOSTS.find(([host]) => host.test(hostname))?.[1] ?? 'json';
}
