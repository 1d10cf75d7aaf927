// How `cellar dev` and `cellar deploy --upload` bundle a folder.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { NO_SETTINGS } from '../../runtime/builds/release/build-input.ts';
import { Folder } from '../../runtime/dev/project/folder.ts';
import type { Files } from '../support/builds/projects.ts';
import { makeWorktrees } from '../support/bundler/worktree.ts';

const worktrees = makeWorktrees();
after(worktrees.remove);

async function bundle(files: Files) {
  const folder = new Folder({
    folder: worktrees.write(files),
    settings: NO_SETTINGS,
    environment: null,
    compiled: null,
    cache: worktrees.write({}),
    onStep: () => {},
    onLine: () => {},
  });
  try {
    await folder.build(null, AbortSignal.timeout(60_000));
    return await folder.bundle(worktrees.write({}));
  } finally {
    folder.close();
  }
}

test("the root's deploy script chooses the environment of the folder that it enters", async () => {
  const { bundle: bundled } = await bundle({
    'package.json': JSON.stringify({
      scripts: { deploy: 'cd apps/web && wrangler deploy --env production' },
    }),
    'apps/web/wrangler.jsonc': JSON.stringify({
      main: 'index.js',
      compatibility_date: '2026-10-01',
      vars: { STAGE: 'none' },
      env: { production: { vars: { STAGE: 'production' } } },
    }),
    'apps/web/index.js': 'export default { fetch() {} };',
  });
  assert.deepEqual(bundled.vars, { STAGE: 'production' });
});

test('functions/ that the build of a Pages project writes are compiled in the same build', async () => {
  const scripts = {
    build: 'mkdir -p functions && cp hello.js functions/hello.js',
    deploy: 'npm run build && wrangler pages deploy ./public',
  };
  const { bundle: bundled } = await bundle({
    'package.json': JSON.stringify({ scripts }),
    'public/a.txt': 'a file',
    'hello.js': `export const onRequest = () => new Response('written');`,
  });
  assert.equal(bundled.worker?.main, 'functions/');
});
