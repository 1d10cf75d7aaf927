// The addresses that people are shown.
import type { Config } from './config.ts';

/** URLs of this Cellar. `app` holds `{slug}` where an app's slug belongs. */
export interface Addresses {
  api: string;
  git: string;
  app: string;
}

/**
 * @param ports the ports that the host listens on
 */
export function addresses(config: Config, ports: { api: number; edge: number }): Addresses {
  const base = config.RUNNER_BASE_DOMAIN;
  const outside = config.RUNNER_PUBLIC_ORIGIN === '' ? null : new URL(config.RUNNER_PUBLIC_ORIGIN);
  const scheme = outside?.protocol ?? 'http:';
  const port = outside ? outside.port : String(ports.edge);
  const at = (name: string) => `${scheme}//${name}.${base}${port === '' ? '' : `:${port}`}`;
  return { api: outside ? at('api') : `http://127.0.0.1:${ports.api}`, git: at('git'), app: at('{slug}') };
}
