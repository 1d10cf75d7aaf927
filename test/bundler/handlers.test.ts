import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { bundleHandlers, HANDLER_SOURCES, keptHandlers } from '../../bundler/modules/handlers.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('the handlers are bundled once, and again when their sources have changed', async (t) => {
  const directory = join(temporaryDirectory(t), 'compiled');
  const script = await keptHandlers(directory);
  const path = join(directory, 'handlers.js');
  assert.equal(readFileSync(path, 'utf8'), script);
  const key = script.slice(0, script.indexOf('\n') + 1);
  assert.equal(script, key + (await bundleHandlers()));

  writeFileSync(path, `${key}kept`);
  assert.equal(await keptHandlers(directory), `${key}kept`);
  writeFileSync(path, '// of other sources\nkept');
  assert.equal(await keptHandlers(directory), script);
  assert.equal(readFileSync(path, 'utf8'), script);
  // Without a writable cache, as on a full disk, the handlers are bundled each time.
  assert.equal(await keptHandlers(join(path, 'below-a-file')), script);
});

test('all sources of the handlers are in the checked folders or in packages', async () => {
  const files = [...(await bundleHandlers()).matchAll(/^\/\/ ([\w./@-]+\.[a-z]+)$/gm)].map(
    ([, path]) => path!,
  );
  assert.ok(files.includes('handlers/index.ts') && files.length > 100);
  const folders = new Set(files.map((path) => path.split('/')[0]!));
  for (const folder of folders) assert.ok(['node_modules', ...HANDLER_SOURCES].includes(folder), folder);
});
