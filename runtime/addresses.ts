// The addresses that people are shown.
import { type Config, isLocal } from './config.ts';

/** URLs of this Cellar. `app` holds `{slug}` where an app's slug belongs. */
export interface Addresses {
  api: string;
  git: string;
  app: string;
  /** The control UI's origin: Cellar's own, or one outside. */
  ui: string;
  /** The port that receives e-mails; null when none does. */
  mail: number | null;
}

/**
 * @param ports the ports that the host listens on
 */
export function addresses(config: Config, ports: { api: number; edge: number }): Addresses {
  const base = config.RUNNER_BASE_DOMAIN;
  const outside = config.RUNNER_PUBLIC_ORIGIN === '' ? null : new URL(config.RUNNER_PUBLIC_ORIGIN);
  const tls = config.RUNNER_EDGE === 'caddy';
  const scheme = outside?.protocol ?? (tls ? 'https:' : 'http:');
  const port = outside ? outside.port : String(tls && ports.edge === 443 ? '' : ports.edge);
  const origin = (host: string) => `${scheme}//${host}${port === '' ? '' : `:${port}`}`;
  const at = (name: string) => origin(`${name}.${base}`);
  const api = outside || (tls && !isLocal(base)) ? at('api') : `http://127.0.0.1:${ports.api}`;
  return { api, git: at('git'), app: at('{slug}'), ui: config.RUNNER_UI_URL || origin(base), mail: null };
}
