// Warns of stores that are reached over the internet without TLS: anybody on the network path could read and change the
// data.
import { lookup } from 'node:dns/promises';
import type { Config } from '../config.ts';
import { log } from '../log.ts';
import { PublicAddresses } from './private-networks.ts';

const ENDPOINTS = ['RUNNER_BUCKET_ENDPOINT', 'RUNNER_SNAPSHOT_ENDPOINT'] as const;

/** Logs a warning for each store that is reached over the internet without TLS. Never rejects. */
export async function warnOfPlainHttp(config: Pick<Config, (typeof ENDPOINTS)[number]>): Promise<void> {
  for (const setting of ENDPOINTS)
    if (await isExposed(config[setting]))
      log('warn', 'the store is reached without TLS over a public network: use https', {
        setting,
        see: 'docs/security.md#the-bucket',
      });
}

/** Whether requests to a URL go to a public address without TLS; false for a name without an address. */
export async function isExposed(url: string): Promise<boolean> {
  if (!url.startsWith('http:')) return false;
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '');
  const found = await lookup(host, { all: true }).catch(() => []);
  const all = new PublicAddresses([]);
  return found.some(({ address }) => all.has(address));
}
