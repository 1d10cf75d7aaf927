import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deployFolder } from '../../bundler/deploy-script/deploy-folder.ts';
import { deployScript } from '../../bundler/deploy-script/deploy-script.ts';

type Scripts = Record<string, string>;

/** Returns the build commands of a deploy script and the options that it gives Wrangler; null when none deploys. */
function read(scripts: Scripts) {
  const found = deployScript(scripts);
  if (found === null) return null;
  const { main, pages, config, environment, assets, minify, tsconfig } = found.call;
  const folder = found.call.folder === '.' ? null : found.call.folder;
  const call = { folder, main, pages, config, environment, assets, minify, tsconfig };
  const said = Object.fromEntries(Object.entries(call).filter(([, value]) => value !== null));
  return {
    build: [...(found.startsWithBuild ? ['<build>'] : []), ...(found.before ? [found.before] : [])].join(
      ' && ',
    ),
    said,
  };
}

/** Deploy scripts as public repositories have them. Their own names are replaced. */
const FORMS: [deploy: string | Scripts, build: string, said: object][] = [
  ['wrangler deploy', '', {}],
  ['wrangler publish', '', {}],
  ['npx wrangler deploy', '', {}],
  ['vite build && wrangler deploy', 'vite build', {}],
  ['vite build && wrangler deploy worker.ts', 'vite build', { main: 'worker.ts' }],
  ['vite build && wrangler deploy --minify', 'vite build', { minify: true }],
  ['vite build && wrangler deploy --temporary', 'vite build', {}],
  ['npx vite build; npx wrangler deploy', 'npx vite build', {}],
  ['npm run build && wrangler deploy', '<build>', {}],
  [
    'npm run build && wrangler deploy -c dist/server/wrangler.json',
    '<build>',
    { config: 'dist/server/wrangler.json' },
  ],
  ['pnpm run build && wrangler deploy', '<build>', {}],
  ['pnpm build && wrangler pages deploy', '<build>', {}],
  ['bun run build && wrangler deploy', '<build>', {}],
  ['yarn build && yarn wrangler deploy', '<build>', {}],
  ['$npm_execpath run build && wrangler deploy', '<build>', {}],
  [`"\${npm_execpath}" run build && $npm_execpath exec wrangler deploy`, '<build>', {}],
  ['pnpm exec wrangler deploy', '', {}],
  ['pnpm --filter web build && wrangler deploy', 'pnpm --filter web build', {}],
  ['npm run build && wrangler pages deploy dist', '<build>', { pages: 'dist' }],
  ['npm run build && wrangler pages publish ./public', '<build>', { pages: './public' }],
  ['npm run build && wrangler pages publish --project-name mine ./build', '<build>', { pages: './build' }],
  [
    'npm run build && wrangler pages deploy dist --project-name mine --branch main',
    '<build>',
    { pages: 'dist' },
  ],
  [
    "npm run build && wrangler pages deploy dist --project-name mine --branch main --commit-message='deploy: latest build'",
    '<build>',
    { pages: 'dist' },
  ],
  [
    'npm run build && node core/build-worker.mjs && wrangler pages deploy dist/client --project-name=mine',
    '<build> && node core/build-worker.mjs',
    { pages: 'dist/client' },
  ],
  [
    'rm -rf public && hugo --gc --minify && wrangler pages deploy public --project-name=mine --branch=main --commit-dirty=true',
    'rm -rf public && hugo --gc --minify',
    { pages: 'public' },
  ],
  ['rm -f dist/_redirects && npx wrangler deploy', 'rm -f dist/_redirects', {}],
  ['nuxt build && wrangler deploy', 'nuxt build', {}],
  ['nuxt build && wrangler pages deploy', 'nuxt build', {}],
  [
    'npx vite build --mode development && wrangler deploy --env dev',
    'npx vite build --mode development',
    { environment: 'dev' },
  ],
  ['wrangler deploy --env production', '', { environment: 'production' }],
  ['wrangler deploy --env prod --bundle', '', { environment: 'prod' }],
  [
    'wrangler deploy --config wrangler.toml --env staging',
    '',
    { config: 'wrangler.toml', environment: 'staging' },
  ],
  ['wrangler deploy --minify src/index.ts', '', { main: 'src/index.ts', minify: true }],
  ['wrangler deploy --minify ./src/app/worker.ts', '', { main: './src/app/worker.ts', minify: true }],
  ['wrangler deploy --keep-vars true', '', {}],
  ['wrangler deploy --minify true src/index.ts --dry-run false', '', { main: 'src/index.ts', minify: true }],
  ['wrangler deploy --minify false', '', { minify: false }],
  ['wrangler deploy --old-asset-ttl 3600 --upload-source-maps src/index.ts', '', { main: 'src/index.ts' }],
  ['wrangler pages deploy --commit-dirty true dist', '', { pages: 'dist' }],
  [
    'npm run build && cd dist/ && wrangler pages deploy .',
    '<build> && cd dist/',
    { folder: 'dist', pages: 'dist' },
  ],
  ['npm run build && wrangler --cwd ./dist pages deploy', '<build>', { folder: 'dist' }],
  [
    'cd apps && wrangler deploy index.js --cwd=web -c ../a.toml --assets public --tsconfig /t.json',
    'cd apps',
    {
      folder: 'apps/web',
      main: 'apps/web/index.js',
      config: 'apps/a.toml',
      assets: 'apps/web/public',
      tsconfig: '/t.json',
    },
  ],
  [
    'cd web && vite build && cd .. && wrangler deploy ./a.ts',
    'cd web && vite build && cd ..',
    { main: './a.ts' },
  ],
  ['cd web && vite build && cd - && wrangler deploy a.ts', 'cd web && vite build && cd -', { main: 'a.ts' }],
  ['cd "$INIT_CWD" && wrangler deploy --cwd $PWD a.ts', 'cd "$INIT_CWD"', { main: 'a.ts' }],
  ['(cd web && vite build) && wrangler deploy a.ts', '(cd web && vite build)', { main: 'a.ts' }],
  ['wrangler d1 migrations apply --remote && wrangler deploy', '', {}],
  ['wrangler d1 migrations apply DB --local && wrangler deploy --remote', '', {}],
  ['vite build && wrangler deploy --env main --secrets-file .env.ci', 'vite build', { environment: 'main' }],
  ['opennextjs-cloudflare build && opennextjs-cloudflare deploy', 'opennextjs-cloudflare build', {}],
  [
    'opennextjs-cloudflare build && opennextjs-cloudflare populateCache local && opennextjs-cloudflare deploy',
    'opennextjs-cloudflare build',
    {},
  ],
  [
    'npm run check && npx wrangler@4 publish "src/my worker.ts" -c wrangler.prod.toml',
    'npm run check',
    { main: 'src/my worker.ts', config: 'wrangler.prod.toml' },
  ],
  [{ predeploy: 'npm run build', deploy: 'wrangler deploy' }, '<build>', {}],
  [
    { 'pages:deploy': 'NODE_VERSION=16 npm run build && wrangler pages publish ./build' },
    'NODE_VERSION=16 npm run build',
    { pages: './build' },
  ],
  [
    { 'deploy:production': 'npm run build && wrangler pages deploy .svelte-kit/cloudflare --env production' },
    '<build>',
    { pages: '.svelte-kit/cloudflare', environment: 'production' },
  ],
  [{ 'deploy:quick': 'npm run build:modular && npm run optimize:all && wrangler pages deploy' }, '', {}],
  [
    {
      deploy: 'npm run deploy:production',
      'deploy:production': 'npm run build && wrangler deploy --env production',
    },
    '<build>',
    { environment: 'production' },
  ],
  [
    {
      deploy: 'npm run db:migrate:remote && npm run build && wrangler deploy',
      'db:migrate:remote': 'wrangler d1 migrations apply rows --remote',
    },
    '<build>',
    {},
  ],
  [
    {
      deploy: 'npm run migrate && npm run build && wrangler deploy',
      migrate: 'wrangler types && npm run ids && wrangler d1 migrations apply rows --remote',
      ids: 'node ids.js',
    },
    'wrangler types && npm run ids && npm run build',
    {},
  ],
  [
    {
      deploy: 'npm run prepare:all && wrangler deploy',
      'prepare:all': 'npm run migrate && cp -r a b',
      migrate: 'npm run ids && wrangler d1 migrations apply rows --remote',
      ids: 'node ids.js',
    },
    'cp -r a b',
    {},
  ],
  [
    { deploy: 'npm run prep && wrangler deploy', prep: 'tsc && wrangler d1 migrations apply rows --remote' },
    'tsc',
    {},
  ],
  [
    {
      deploy: 'cd "$PWD/web" && npm run assets && cd .. && wrangler deploy src/index.ts',
      assets: 'node a.js',
    },
    'cd "$PWD/web" && npm run assets && cd ..',
    { main: 'src/index.ts' },
  ],
  [{ deploy: 'cd ../infra && wrangler deploy' }, 'cd ../infra', {}],
  [
    {
      deploy: 'npm run migrate && wrangler deploy src/index.ts',
      migrate: 'cd db && npm run generate && wrangler d1 migrations apply rows --remote',
      generate: 'node g.js',
    },
    'cd db && npm run generate',
    { main: 'src/index.ts' },
  ],
  [
    { deploy: 'wrangler deploy --env production -c wrangler.toml && wrangler deploy --env staging' },
    '',
    { environment: 'production', config: 'wrangler.toml' },
  ],
  [
    {
      deploy: 'npm run cf:deploy -- --env production',
      'cf:deploy': 'npm run assets && wrangler deploy',
      assets: 'node assets.js',
    },
    'npm run assets',
    { environment: 'production' },
  ],
  [
    { deploy: 'wrangler types && tsc && (cd web && npm ci && npm run build) && wrangler deploy' },
    'wrangler types && tsc && (cd web && npm ci && npm run build)',
    {},
  ],
  [
    { deploy: 'cross-env CLOUDFLARE_ENV=production vite build && cross-env CI=1 wrangler deploy' },
    'cross-env CLOUDFLARE_ENV=production vite build',
    {},
  ],
  [
    {
      deploy:
        'dotenv -e .env.production -- vite build && dotenv -e .env.production -- wrangler deploy --name "$NAME"',
    },
    'dotenv -e .env.production -- vite build',
    {},
  ],
  [{ deploy: 'wrangler deploy $ENTRY --env $STAGE' }, '', {}],
  [{ deploy: 'echo "a && b; c" && wrangler deploy 2>&1 | tee log' }, 'echo "a && b; c"', {}],
];

test('the commands before Wrangler in a deploy script are the build, and its arguments say what is deployed', () => {
  for (const [script, build, said] of FORMS) {
    const scripts = typeof script === 'string' ? { deploy: script } : script;
    // Other scripts of the project change nothing, unless the deploy script calls them.
    const all = { build: 'vite build', check: 'tsc', ...scripts };
    const shown = JSON.stringify(script);
    assert.deepEqual(read(all), { build, said }, shown);
  }
});

test('commands on files and folders do not build, whatever the folder is called', () => {
  const builds = (before: string) =>
    deployScript({
      clean: 'npx rimraf build',
      site: 'rm -rf build; vite build',
      deploy: `${before} && wrangler deploy`,
    })?.builds;
  for (const before of [
    'cd build',
    'rm -rf build',
    'npm run clean',
    'mkdir -p build && cp a build',
    'echo "a build"',
  ])
    assert.equal(builds(before), false, before);
  for (const before of [
    'vite build',
    'rm -rf build || npm run build:css',
    'npm run site',
    'cd build && vite build',
  ])
    assert.equal(builds(before), true, before);
});

test('account commands and those after Wrangler are named and not run', () => {
  const scripts = {
    predeploy: 'wrangler whoami || wrangler login',
    deploy: 'npm run migrate && wrangler deploy && npm run purge',
    migrate: 'npm run ids && wrangler d1 migrations apply DB --remote',
    ids: 'node write-ids.js',
    purge: 'curl -X POST https://example.com',
    postdeploy: 'echo done',
  };
  assert.deepEqual(deployScript(scripts)?.notRun, [
    'wrangler whoami || wrangler login',
    'npm run ids',
    'wrangler d1 migrations apply DB --remote',
    'npm run purge',
    'echo done',
  ]);
  assert.equal(deployScript(scripts)?.before, null);
});

test('the deploy script gives variables, defines and aliases, except values that only a shell knows', () => {
  const call = (line: string) => deployScript({ deploy: line })!.call;
  const { main, vars, define, alias, tsconfig, jsxFactory, jsxFragment, leftOut } = call(
    `wrangler deploy --define X:'"1:2"' --define COMMIT:$(git rev-parse HEAD) --alias=react:preact/compat src/index.ts` +
      ' --var A:b --var "C:$C" --define D:`date +%s` --tsconfig tsconfig.build.json --jsx-factory h --jsx-fragment Fragment',
  );
  assert.deepEqual(
    { main, vars, define, alias, tsconfig, jsxFactory, jsxFragment },
    {
      main: 'src/index.ts',
      vars: { A: 'b' },
      define: { X: '"1:2"' },
      alias: { react: 'preact/compat' },
      tsconfig: 'tsconfig.build.json',
      jsxFactory: 'h',
      jsxFragment: 'Fragment',
    },
  );
  assert.deepEqual(
    ['deploy --name shop', 'deploy --name $NAME', 'pages deploy x'].map(
      (line) => call(`wrangler ${line}`).name,
    ),
    ['shop', null, null],
  );
  assert.deepEqual(leftOut, ['--var C:$C', '--define COMMIT:$(git rev-parse HEAD)', '--define D:`date +%s`']);
});

test('of several calls of Wrangler the first without a configuration counts, and the others are not run', () => {
  const scripts = {
    deploy: 'npm run deploy:object && npm run deploy:main && wrangler deploy --env trial',
    'deploy:object': 'tsc && wrangler deploy --config worker/wrangler.toml',
    'deploy:main': 'vite build && wrangler deploy --minify',
  };
  const found = deployScript(scripts);
  assert.deepEqual([found?.call.config, found?.call.minify], [null, true]);
  assert.equal(found?.before, 'tsc && vite build');
  assert.deepEqual(found?.notRun, [
    'wrangler deploy --config worker/wrangler.toml',
    'wrangler deploy --env trial',
  ]);
  const named = deployScript({ deploy: 'wrangler deploy -c a.toml && wrangler deploy -c b.toml' });
  assert.equal(named?.call.config, 'a.toml');
});

test('a script that calls itself is read once', () => {
  const scripts = { deploy: 'npm run again && wrangler deploy', again: 'npm run deploy' };
  assert.ok(deployScript(scripts));
});

test('a script may call a name that every object inherits', () => {
  for (const call of ['npm run toString', 'run-s constructor valueOf', 'pnpm __proto__'])
    assert.deepEqual(read({ deploy: `${call} && wrangler deploy` }), { build: call, said: {} });
  assert.deepEqual(read({ deploy: 'npm run toString && wrangler deploy', toString: 'vite build' }), {
    build: 'npm run toString',
    said: {},
  });
  assert.equal(deployFolder({ deploy: 'toString a && constructor --filter=b' }), null);
});

test('a production deploy script takes precedence over a staging one', () => {
  const trial = deployScript({ 'deploy:staging': 'vite build && wrangler deploy src/a.ts --env staging' });
  assert.deepEqual([trial?.call.main, trial?.call.environment, trial?.before], ['src/a.ts', null, null]);
  const both = deployScript({ start: 'wrangler deploy other.ts', deploy: 'wrangler deploy src/index.ts' });
  assert.equal(both?.call.main, 'src/index.ts');
});

test('a script that does not deploy is not a deploy script', () => {
  for (const script of [
    'wrangler dev src/index.ts',
    'wrangler deploy --dry-run src/index.ts',
    'wrangler secret put deploy',
    'node wrangler.js deploy src/index.ts',
    'echo wrangler deploy',
    'gh-pages -d dist',
  ])
    assert.equal(deployScript({ deploy: script }), null, script);
});
