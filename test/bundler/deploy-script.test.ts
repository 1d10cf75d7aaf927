import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deployCall } from '../../bundler/deploy-script.ts';

test('the call of Wrangler that deploys is found among the scripts, and read word by word', () => {
  const deploy =
    'npm run check && npx wrangler@4 publish "src/my worker.ts" --minify -c wrangler.prod.toml -e production --compatibility-flags nodejs_compat';
  assert.deepEqual(deployCall({ start: 'wrangler deploy other.ts', deploy }), {
    script: 'deploy',
    main: 'src/my worker.ts',
    pages: null,
    config: 'wrangler.prod.toml',
    environment: 'production',
    assets: null,
    compatibilityDate: null,
    compatibilityFlags: ['nodejs_compat'],
    minify: true,
    vars: {},
  });
  const pages = deployCall({ ship: 'vite build; wrangler pages deploy --project-name shop dist/client' });
  assert.deepEqual([pages?.script, pages?.pages, pages?.main], ['ship', 'dist/client', null]);
  const trial = deployCall({ 'deploy:staging': 'wrangler deploy src/a.ts --env staging' });
  assert.deepEqual([trial?.main, trial?.environment], ['src/a.ts', null]);
});

test('what says nothing of an entry, or nothing for certain, is no such call', () => {
  for (const script of [
    'wrangler deploy',
    'wrangler deploy --minify',
    'wrangler dev src/index.ts',
    'wrangler deploy --dry-run src/index.ts',
    'wrangler deploy $ENTRY',
    'wrangler secret put deploy',
    'wrangler pages deploy',
    'node wrangler.js deploy src/index.ts',
  ])
    assert.equal(deployCall({ deploy: script }), null, script);
});
