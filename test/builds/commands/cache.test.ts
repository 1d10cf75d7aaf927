import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { trimCache } from '../../../runtime/builds/commands/cache.ts';
import { closeBundler } from '../../../runtime/builds/release/build.ts';
import { buildCommit } from '../../support/builds/projects.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

after(closeBundler);

/** Fills a cache with directories of these sizes, in MiB. @returns the cache */
function fill(directory: string, megabytes: Record<string, number>): string {
  for (const [name, size] of Object.entries(megabytes)) {
    mkdirSync(join(directory, name), { recursive: true });
    writeFileSync(join(directory, name, 'content'), Buffer.alloc(size * 2 ** 20, 1));
  }
  return directory;
}

test('the largest caches are removed whole until the rest fits', async (t) => {
  const cache = fill(temporaryDirectory(t), { npm: 3, pnpm: 5, yarn: 1, bun: 2 });
  assert.deepEqual(await trimCache(cache, 12), []);
  assert.deepEqual(await trimCache(cache, 4), ['pnpm', 'npm']);
  assert.deepEqual(readdirSync(cache).sort(), ['bun', 'yarn']);
  assert.deepEqual(await trimCache(cache, 0), ['bun', 'yarn']);
  assert.deepEqual(await trimCache(cache, 0), []);
  assert.deepEqual(await trimCache(join(cache, 'none'), 1), []);
});

test('a build that exceeds the cache limit loses its caches and says so; limit 0 keeps nothing', async (t) => {
  const directory = temporaryDirectory(t);
  const script = 'mkdir -p $npm_config_cache && head -c 3000000 /dev/zero > $npm_config_cache/x';
  const files = {
    'index.js': 'export default { fetch() { return new Response("ok") } }',
    'package.json': JSON.stringify({ scripts: { build: script } }),
  };
  const build = (cacheMb: number) =>
    buildCommit(directory, files, {
      limits: { stepTimeoutMs: 600_000, worktreeMb: 500, cacheMb, floorMb: 256, memoryMb: 2048 },
    });
  const kept = await build(4);
  await kept.result;
  const file = join(kept.input.cacheDirectory, 'npm', 'x');
  assert.ok(existsSync(file));
  const over = await build(2);
  await over.result;
  assert.ok(!existsSync(file));
  assert.ok(over.lines.includes('the caches have more than 2 MiB: dropped the cache of npm'));
  await (await build(0)).result;
  assert.ok(!existsSync(file));
});
