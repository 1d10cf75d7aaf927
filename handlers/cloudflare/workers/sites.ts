// The files of Workers Sites, which Wrangler sends as values of a namespace before the Worker. They become assets of the release.
import * as z from 'zod';
import { fromBase64, toBase64 } from '../../services/base64.ts';
import { newAppCall, Page } from '../call.ts';
import { ownerOf } from './assets.ts';
import { homeOfUpload } from './upload-home.ts';

/** The name that Wrangler gives the namespace. */
const NAMESPACE = '/accounts/:account/storage/kv/namespaces/__:script-workers_sites_assets';
/** Largest body of a batch of files. */
const BATCH_BYTES = 36 * 2 ** 20;
/** Digits of a hash, as the host computes it. */
const HASH_DIGITS = 32;

const Entry = z.object({ key: z.string(), value: z.string(), base64: z.boolean().optional() });

export const siteCalls = [
  newAppCall({
    method: 'GET',
    path: `${NAMESPACE}/keys`,
    // Wrangler then sends all files, and removes none: an earlier release may need them.
    answer: async () => new Page([], { count: 0, cursor: '' }),
  }),
  newAppCall({
    method: 'PUT',
    path: `${NAMESPACE}/bulk`,
    body: z.array(Entry).max(10_000),
    bodyLimit: BATCH_BYTES,
    answer: async (context, entries, app) => {
      const { host } = context;
      const manifest: Record<string, { hash: string; size: number }> = {};
      const contents = new Map<string, string>();
      for (const { key, value, base64 } of entries) {
        const bytes = base64 ? fromBase64(value) : new TextEncoder().encode(value);
        const hash = await hashOf(bytes);
        manifest[`/${key}`] = { hash, size: bytes.length };
        contents.set(hash, base64 ? value : toBase64(bytes));
      }
      const home = await homeOfUpload(context, app);
      const query = { owner: ownerOf(context), app: app?.id, home, hashing: 'sha256' };
      const body = new Blob([JSON.stringify({ manifest })]).stream();
      const { session, buckets } = await host.call('POST /uploads/assets', {}, { query, body });
      for (const hashes of buckets) {
        const part = Object.fromEntries(hashes.map((hash) => [hash, contents.get(hash)]));
        const given = { query: { home }, contentType: 'application/json' };
        const body = new Blob([JSON.stringify(part)]).stream();
        await host.call('POST /uploads/assets/:session', { session }, { ...given, body });
      }
      return { successful_key_count: entries.length, unsuccessful_keys: [] };
    },
  }),
];

async function hashOf(bytes: Uint8Array): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return [...digest]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('')
    .slice(0, HASH_DIGITS);
}
