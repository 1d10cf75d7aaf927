// An S3 server: that of Miniflare, which checks signatures as Amazon's does.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Miniflare } from 'miniflare';
import type { S3Place } from '../../../runtime/bucket/place.ts';

const KEYS = { accessKeyId: 'an-access-key', secretAccessKey: 'a-secret-key' };

/** Starts the server with a bucket `snapshots`. With `settings`, a Cellar stores its snapshots there. */
export async function startS3() {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-s3-'));
  const miniflare = new Miniflare({
    host: '127.0.0.1',
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    enableDevRegistry: false,
    logRequests: false,
    resourcePersistencePath: directory,
    workers: [
      {
        config: {
          name: 'store',
          compatibilityDate: '2026-10-01',
          manifest: {
            mainModule: 'index.js',
            modulesRoot: '/',
            modules: {
              'index.js': { type: 'esm', contents: 'export default { fetch: () => new Response() };' },
            },
          },
          env: { BUCKET: { type: 'r2', name: 'snapshots', dev: { experimentalS3Credentials: KEYS } } },
        },
        dev: { rootPath: '/' },
      },
    ],
  });
  const url = await miniflare.ready;
  const endpoint = new URL('/cdn-cgi/local/r2/s3', url).href;
  const bucket = await miniflare.getR2Bucket('BUCKET');
  return {
    settings: {
      RUNNER_SNAPSHOT_URL: 's3://snapshots/of/cellar',
      RUNNER_SNAPSHOT_ENDPOINT: endpoint,
      RUNNER_SNAPSHOT_REGION: 'auto',
      RUNNER_SNAPSHOT_ACCESS_KEY: KEYS.accessKeyId,
      RUNNER_SNAPSHOT_SECRET_KEY: KEYS.secretAccessKey,
    },
    /** The same bucket, with another prefix. */
    place: (prefix: string): S3Place => ({
      ...{ endpoint, region: 'auto', bucket: 'snapshots', prefix },
      ...{ accessKey: KEYS.accessKeyId, secretKey: KEYS.secretAccessKey },
    }),
    names: async (): Promise<string[]> => (await bucket.list()).objects.map(({ key }) => key),
    [Symbol.asyncDispose]: async () => {
      await miniflare.dispose();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
