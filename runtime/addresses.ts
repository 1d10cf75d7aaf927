// The URLs at which people and apps reach this Cellar.
import { type Config, isLocal } from './config.ts';

/** URLs of this Cellar, and its mail port. `app` contains `{slug}` in place of an app's slug. */
export interface Addresses {
  api: string;
  git: string;
  app: string;
  /** Origin of the control UI: Cellar's own, or the external one of `RUNNER_UI_URL`. */
  ui: string;
  /** The port that receives e-mails; null while no e-mails are received. */
  mail: number | null;
}

/** Returns the addresses. @param ports the ports in use: with a setting of 0, the system has chosen the port */
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
