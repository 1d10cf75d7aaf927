import { convertV4MiniflareOptions, Miniflare } from 'miniflare';

/** Runs Workers in Miniflare on a free port of this machine. @param options those of Miniflare 4 */
export function newMiniflare(options: object): Miniflare {
  const quiet = { host: '127.0.0.1', port: 0, cf: false, telemetry: { enabled: false } };
  return new Miniflare(convertV4MiniflareOptions({ ...quiet, ...options } as never));
}
