import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { bundleProject } from '../../bundler/bundle.ts';
import { NO_SETTINGS } from '../../runtime/builds/release/build-input.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';

const worktrees = makeWorktrees();
after(worktrees.remove);

const hash = (key: string) => createHash('sha256').update(key).digest('hex');

/** Returns a project built with OpenNext, whose cache `name` has one page and one response from build time. */
const project = (name: string, config: object, files: Record<string, string> = {}) => ({
  ...wranglerProject({ main: '.open-next/worker.js', ...config }),
  '.open-next/worker.js': `export default { fetch: () => new Response(${JSON.stringify(name)}) };`,
  '.open-next/cache/b1/posts/hello.cache': '{"type":"app"}',
  '.open-next/cache/__fetch/b1/0a1b': '{"kind":"FETCH"}',
  ...files,
});
const R2 = 'cf-r2-incremental-cache';
const bucket = { r2_buckets: [{ binding: 'NEXT_INC_CACHE_R2_BUCKET', bucket_name: 'cache' }] };

test("the cache of OpenNext's build is part of the release, each file under its key", async () => {
  const { bundle, list } = await worktrees.bundle(project(R2, bucket));
  assert.deepEqual(bundle.prefill, {
    kind: 'bucket',
    binding: 'NEXT_INC_CACHE_R2_BUCKET',
    directory: 'next-cache',
    prefix: 'incremental-cache',
    files: 2,
  });
  const kept = [`next-cache/b1/${hash('/0a1b')}.fetch`, `next-cache/b1/${hash('/posts/hello')}.cache`];
  assert.deepEqual(
    list().filter((path) => path.startsWith('next-cache')),
    kept.sort(),
  );
  const named = await worktrees.bundle(
    project('cf-kv-incremental-cache', {
      kv_namespaces: [{ binding: 'NEXT_INC_CACHE_KV', id: 'cache' }],
      vars: { NEXT_INC_CACHE_KV_PREFIX: 'mine' },
    }),
  );
  assert.deepEqual([named.bundle.prefill?.kind, named.bundle.prefill?.prefix], ['namespace', 'mine']);
});

test('a Worker with its cache among its assets finds it there, and visitors do not', async () => {
  const cached = (fields: object) =>
    worktrees.bundle(
      project(
        'cf-static-assets-incremental-cache',
        { assets: { directory: '.open-next/assets', binding: 'ASSETS', ...fields } },
        { '.open-next/assets/a.txt': '' },
      ),
    );
  const { bundle, list } = await cached({});
  assert.equal(bundle.prefill, undefined);
  assert.deepEqual(bundle.assets?.runWorkerFirst, ['/cdn-cgi/_next_cache/*']);
  assert.ok(list().includes('assets/cdn-cgi/_next_cache/b1/posts/hello.cache'), list().join('\n'));
  const below = await cached({ base_path: '/docs' });
  assert.deepEqual(below.bundle.assets?.runWorkerFirst, ['/*cdn-cgi/_next_cache/*']);
});

test('a D1 tag database gets its table, and a Worker without a cache gets nothing', async () => {
  const { bundle } = await worktrees.bundle(
    project('none', { ...bucket, d1_databases: [{ binding: 'NEXT_TAG_CACHE_D1', database_name: 'tags' }] }),
  );
  assert.equal(bundle.prefill, undefined);
  assert.deepEqual(
    bundle.databases[0]?.migrations.map(({ name }) => name),
    ['opennext-revalidations.sql'],
  );
});

test('a cache without its binding and a file that is not a cache entry fail by name', async () => {
  await assert.rejects(
    worktrees.bundle(project(R2, {})),
    /wrangler\.json\w*: r2_buckets has no binding NEXT_INC_CACHE_R2_BUCKET, where open-next\.config\.ts/,
  );
  await assert.rejects(
    worktrees.bundle(project(R2, bucket, { '.open-next/cache/notes.txt': '' })),
    /\.open-next\/cache\/notes\.txt is not an entry of OpenNext's cache/,
  );
});

/** Bundles a worktree with a limit of its assets and its cache. */
const bundleIn = (worktree: string, assetsMb: number) =>
  bundleProject({
    worktree,
    settings: NO_SETTINGS,
    out: `${worktree}-out`,
    environment: null,
    deployLine: null,
    assetsMb,
    before: null,
  });

test('a cache over the limit fails with the advice to make fewer pages', async () => {
  const assets = { assets: { directory: '.open-next/assets', binding: 'ASSETS' } };
  for (const written of [
    project(R2, bucket),
    project('cf-static-assets-incremental-cache', assets, { '.open-next/assets/a.txt': '' }),
  ])
    await assert.rejects(
      bundleIn(worktrees.write(written), 0),
      /\.open-next\/cache has more than the 0 MiB .* \(RUNNER_BUILD_MAX_MB\); make fewer pages at build time/,
    );
});

test('a link in a cache that leads to a folder around it or out of the project fails by name', async () => {
  const cases = [
    ['../b1', /cache\/b1\/linked is a link to a folder that contains the link/],
    ['/usr', /cache\/b1\/linked is a link that leaves the project/],
  ] as const;
  for (const [target, message] of cases) {
    const worktree = worktrees.write(project(R2, bucket));
    symlinkSync(target, join(worktree, '.open-next/cache/b1/linked'));
    await assert.rejects(bundleIn(worktree, 500), message);
  }
});
