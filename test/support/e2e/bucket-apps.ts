// Apps that keep their data and code in the bucket of a test.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { MemoryStore } from '../bucket/memory-store.ts';
import type { Cellar } from './cellar.ts';

/** The prefix of all names that a Cellar uses in the bucket. */
export const PREFIX = 'of/cellar/';
/** The files of a Worker that answers with a text. */
export const page = (text: string) => ({
  'index.js': `export default { fetch: () => new Response('${text}') };\n`,
});

/** Creates an app that keeps its data in the bucket. */
export async function createInBucket(cellar: Cellar, slug: string): Promise<string> {
  const { status, body } = await cellar.call('POST', '/v1/apps', { slug, storage: 'bucket' });
  assert.deepEqual([status, body.storage], [201, 'bucket'], JSON.stringify(body));
  return body.id;
}

/** Returns the names in a folder of an app in the bucket. */
export function names(store: MemoryStore, id: string, folder: string): string[] {
  const prefix = `${PREFIX}apps/${id}/${folder}/`;
  return [...store.objects.keys()]
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length));
}

/** Deletes folders of a stopped Cellar's data directory. */
export function loseCode({ data }: Cellar, ...folders: string[]): void {
  for (const folder of folders) rmSync(join(data, folder), { recursive: true, force: true });
}

/** Returns the deploys of an app, the newest first. */
export async function deploys(
  cellar: Cellar,
  id: string,
): Promise<{ id: string; status: string; error: string }[]> {
  return (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
}

/** Returns the commit of an app's branch `main`; empty if the branch does not exist. */
export async function log(cellar: Cellar, slug: string): Promise<string> {
  const { stdout } = await cellar.git(cellar.directory, 'ls-remote', cellar.remote(slug), 'refs/heads/main');
  return stdout.split('\t')[0]!;
}
