// Cellar's settings, read from an environment.
import type { z } from 'zod';
import { type Setting, settings } from './settings.ts';

/** All parsed settings. At the end of a name, `_S` stands for seconds, `_H` for hours, and `_MB` for MiB. */
export type Config = { [Name in keyof typeof settings]: z.output<(typeof settings)[Name]['schema']> };

/** Invalid settings. The message has one line for each, so that all can be fixed at once. */
export class ConfigError extends Error {}

/**
 * Reads the settings from `environment`. An empty text means the default.
 * @throws {ConfigError} naming every invalid, missing or contradictory setting
 */
export function readConfig(environment: Record<string, string | undefined>): Config {
  const config: Record<string, unknown> = {};
  const problems: string[] = [];
  for (const [name, setting] of Object.entries(settings)) {
    const result = setting.schema.safeParse(environment[name] || setting.default);
    if (result.success) config[name] = result.data;
    else problems.push(`${name} ${result.error.issues[0]!.message}`);
  }
  problems.push(...contradictions(config as Partial<Config>));
  if (problems.length > 0) throw new ConfigError(problems.join('\n'));
  return config as Config;
}

/**
 * Reads one setting, independent of the others.
 * @throws {ConfigError} when it is invalid
 */
export function readSetting<Name extends keyof Config>(
  name: Name,
  environment: Record<string, string | undefined>,
): Config[Name] {
  const setting = settings[name];
  const result = setting.schema.safeParse(environment[name] || setting.default);
  if (!result.success) throw new ConfigError(`${name} ${result.error.issues[0]!.message}`);
  return result.data as Config[Name];
}

/** Returns errors of settings that contradict or need each other. `config` lacks the invalid settings. */
function contradictions(config: Partial<Config>): string[] {
  const problems: string[] = [];
  const { RUNNER_BASE_DOMAIN, RUNNER_TOKEN, RUNNER_EDGE, RUNNER_EDGE_HTTP_PORT } = config;
  if (!isLocal(String(RUNNER_BASE_DOMAIN)) && RUNNER_TOKEN === '') {
    problems.push(
      'RUNNER_TOKEN must be set when RUNNER_BASE_DOMAIN is not localhost; `openssl rand -hex 32` makes one',
    );
  }
  if (RUNNER_EDGE === 'embedded' && RUNNER_EDGE_HTTP_PORT) {
    problems.push(
      'RUNNER_EDGE_HTTP_PORT needs RUNNER_EDGE=caddy; the embedded edge has one port, RUNNER_EDGE_PORT',
    );
  }
  const isStore = String(config.RUNNER_SNAPSHOT_URL).startsWith('s3:');
  if (isStore && (config.RUNNER_SNAPSHOT_ACCESS_KEY === '' || config.RUNNER_SNAPSHOT_SECRET_KEY === '')) {
    problems.push(
      'RUNNER_SNAPSHOT_ACCESS_KEY and RUNNER_SNAPSHOT_SECRET_KEY must be set when RUNNER_SNAPSHOT_URL is s3://',
    );
  }
  if (
    config.RUNNER_BUCKET &&
    (config.RUNNER_BUCKET_ACCESS_KEY === '' || config.RUNNER_BUCKET_SECRET_KEY === '')
  ) {
    problems.push('RUNNER_BUCKET_ACCESS_KEY and RUNNER_BUCKET_SECRET_KEY must be set when RUNNER_BUCKET is');
  }
  if (config.RUNNER_STORAGE === 'bucket' && config.RUNNER_BUCKET === '') {
    problems.push('RUNNER_BUCKET must be set when RUNNER_STORAGE is bucket');
  }
  if (config.RUNNER_ADDRESS && (config.RUNNER_BUCKET === '' || config.RUNNER_CLUSTER_KEY === '')) {
    problems.push(
      'RUNNER_BUCKET and RUNNER_CLUSTER_KEY must be set when RUNNER_ADDRESS is, and be the same on each host',
    );
  }
  if ((config.RUNNER_MAIL_TLS_CERT === '') !== (config.RUNNER_MAIL_TLS_KEY === '')) {
    problems.push('RUNNER_MAIL_TLS_CERT and RUNNER_MAIL_TLS_KEY must be set together');
  }
  if (config.RUNNER_SMTP_URL && config.RUNNER_SMTP_FROM === '') {
    problems.push('RUNNER_SMTP_FROM must be set when RUNNER_SMTP_URL is, such as cellar@example.com');
  }
  if (config.RUNNER_BROWSER && config.RUNNER_BROWSER_URL) {
    problems.push('RUNNER_BROWSER must not be set when RUNNER_BROWSER_URL is: both name the browser of apps');
  }
  if (config.RUNNER_OIDC_URL && !(config.RUNNER_OIDC_CLIENT_ID && config.RUNNER_OIDC_CLIENT_SECRET)) {
    problems.push(
      'RUNNER_OIDC_CLIENT_ID and RUNNER_OIDC_CLIENT_SECRET must be set when RUNNER_OIDC_URL is; the provider shows both',
    );
  }
  const needsProvider = config.RUNNER_OIDC_REQUIRED === 'on' || config.RUNNER_OIDC_CLIENT_ID;
  if (needsProvider && config.RUNNER_OIDC_URL === null) {
    problems.push(
      'RUNNER_OIDC_URL must be set when RUNNER_OIDC_REQUIRED or RUNNER_OIDC_CLIENT_ID is, such as https://id.example.com',
    );
  }
  if (config.RUNNER_OIDC_URL && config.RUNNER_UI_URL) {
    problems.push(
      'RUNNER_OIDC_URL must not be set when RUNNER_UI_URL is: people then sign in at that external control UI',
    );
  }
  const ports = listened(config);
  for (const [i, { name, first, last, host }] of ports.entries())
    for (const other of ports.slice(0, i)) {
      const isApart = last < other.first || first > other.last || (host && other.host && host !== other.host);
      const is = first === last ? 'is' : 'has';
      if (!isApart) problems.push(`${name} ${is} the port of ${other.name} too; give each its own`);
    }
  return problems;
}

/** Returns the ports that the settings name, without those that are picked. `host` is empty for all addresses. */
function listened(config: Partial<Config>): { name: string; first: number; last: number; host: string }[] {
  const { RUNNER_PORT, RUNNER_EDGE_PORT, RUNNER_EDGE_HTTP_PORT, RUNNER_MAIL_PORT } = config;
  const { RUNNER_TCP_PORTS: tcp, RUNNER_ADDRESS: address } = config;
  const ports = Object.entries({ RUNNER_PORT, RUNNER_EDGE_PORT, RUNNER_EDGE_HTTP_PORT, RUNNER_MAIL_PORT });
  const host = isLocal(String(config.RUNNER_BASE_DOMAIN)) ? '127.0.0.1' : '';
  return [
    ...ports.map(([name, port]) => ({
      ...{ name, first: port ?? 0, last: port ?? 0, host: name === 'RUNNER_PORT' ? '127.0.0.1' : host },
    })),
    ...(tcp ? [{ name: 'RUNNER_TCP_PORTS', ...tcp, host }] : []),
    // Hosts use the port after it too.
    ...(address
      ? [{ name: 'RUNNER_ADDRESS', first: address.port, last: address.port + 1, host: address.host }]
      : []),
  ].filter(({ first }) => first > 0);
}

/** Returns what to do about an error of a port that is in use; undefined for another error. */
export function portTaken(error: unknown, config: Config): string | undefined {
  const { code, port, address } = error as NodeJS.ErrnoException & { port?: number; address?: string };
  if (code !== 'EADDRINUSE' || port === undefined) return undefined;
  const setting = listened(config).find(
    ({ first, last, host }) =>
      port >= first && port <= last && (host === '' || address === undefined || host === address),
  );
  const orElse = setting === undefined ? '' : `, or set ${setting.name} to another`;
  return `port ${port} is in use; stop the program that uses it${orElse}`;
}

/** Returns all settings as text, without the values of secrets. */
export function shownSettings(environment: Record<string, string | undefined>) {
  return Object.entries<Setting>(settings).map(([name, setting]) => {
    const given = environment[name] || null;
    const secret = setting.secret === true;
    return {
      name,
      value: secret ? null : (given ?? setting.default),
      default: setting.default,
      from: given === null ? ('default' as const) : ('environment' as const),
      secret,
      meaning: setting.meaning,
    };
  });
}

/** Returns the names in the environment that look like settings but are unknown: misspelt, or of another version. */
export function unknownSettings(environment: Record<string, string | undefined>): string[] {
  return Object.keys(environment).filter((name) => /^(RUNNER|SERVICE)_/.test(name) && !(name in settings));
}

/** Returns whether a base domain names this machine only. */
export function isLocal(baseDomain: string): boolean {
  return baseDomain === 'localhost' || baseDomain.endsWith('.localhost');
}
