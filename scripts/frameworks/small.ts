// Projects without a framework: Workers with each kind of binding, Cloudflare Pages, and repositories of several packages.
import { type FrameworkProject, GITIGNORE, json } from './project.ts';

const config = (more: object = {}) =>
  json({ name: 'app', main: 'src/index.ts', compatibility_date: '2026-10-01', ...more });

export const small: FrameworkProject[] = [
  {
    name: 'Worker with every kind of storage',
    byHand: {
      'wrangler.jsonc': config({
        d1_databases: [{ binding: 'DB', database_name: 'db', database_id: 'db' }],
        kv_namespaces: [{ binding: 'KV', id: 'kv' }],
        r2_buckets: [{ binding: 'BUCKET', bucket_name: 'bucket' }],
        durable_objects: { bindings: [{ name: 'COUNTER', class_name: 'Counter' }] },
        migrations: [{ tag: 'v1', new_sqlite_classes: ['Counter'] }],
      }),
      'migrations/0001_words.sql': "CREATE TABLE words (word TEXT);\nINSERT INTO words VALUES ('of D1');\n",
      'src/index.ts': `import { DurableObject } from 'cloudflare:workers';

export class Counter extends DurableObject {
  count() {
    return this.ctx.storage.sql.exec('SELECT 1 + 1 AS sum').one().sum;
  }
}

export default {
  async fetch(_request, env) {
    await env.KV.put('key', 'of KV');
    await env.BUCKET.put('key', 'of R2');
    const { word } = await env.DB.prepare('SELECT word FROM words').first();
    const kept = [word, await env.KV.get('key'), await (await env.BUCKET.get('key')).text()];
    return Response.json([...kept, await env.COUNTER.getByName('a').count()]);
  },
};
`,
    },
    manager: 'none',
    checks: [{ path: '/', text: /^\["of D1","of KV","of R2",2\]$/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker, rate limit and its version',
    byHand: {
      'wrangler.jsonc': config({
        ratelimits: [{ name: 'LIMITER', namespace_id: '1', simple: { limit: 100, period: 60 } }],
        version_metadata: { binding: 'VERSION' },
      }),
      'src/index.ts': `export default {
  async fetch(_request, env) {
    const { success } = await env.LIMITER.limit({ key: 'all' });
    return Response.json({ success, version: env.VERSION.id });
  },
};
`,
    },
    manager: 'none',
    checks: [{ path: '/', text: /"success":true,"version":"\w+"/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker that loads Workers, codemode and worker-bundler',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({
        name: 'app',
        dependencies: { '@cloudflare/codemode': '^0.5', '@cloudflare/worker-bundler': '^0.2' },
      }),
      'wrangler.jsonc': config({
        compatibility_flags: ['nodejs_compat'],
        worker_loaders: [{ binding: 'LOADER' }],
      }),
      'src/index.ts': `import { DynamicWorkerExecutor } from '@cloudflare/codemode';
import { createWorker } from '@cloudflare/worker-bundler';

const HELLO = "import { hello } from './hello'; export default { fetch: () => new Response(hello('bundled')) };";

export default {
  async fetch(request, env) {
    const executor = new DynamicWorkerExecutor({ loader: env.LOADER });
    const fns = { add: async ({ a, b }) => a + b };
    const code = 'async () => (await codemode.add({ a: 1, b: 2 })) * 10';
    const { result } = await executor.execute(code, [{ name: 'codemode', fns }]);
    const files = {
      'src/index.ts': HELLO,
      'src/hello.ts': 'export const hello = (name: string): string => "hello " + name;',
    };
    const worker = env.LOADER.get('hello', async () => ({
      ...(await createWorker({ files })),
      compatibilityDate: '2026-01-01',
    }));
    const answer = await worker.getEntrypoint().fetch(request);
    return Response.json([result, await answer.text()]);
  },
};
`,
    },
    manager: 'npm',
    checks: [{ path: '/', text: /^\[30,"hello bundled"\]$/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker, WebSockets of a Durable Object',
    byHand: {
      'wrangler.toml': `name = "app"
main = "src/index.ts"
compatibility_date = "2025-06-01"

[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"

[[migrations]]
tag = "v1"
new_classes = ["Room"]
`,
      'src/index.ts': `export class Room {
  state: DurableObjectState;
  constructor(state: DurableObjectState) {
    this.state = state;
  }
  async fetch(request: Request) {
    if (request.headers.get('upgrade') !== 'websocket') return new Response('a room');
    const [client, server] = Object.values(new WebSocketPair());
    this.state.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket: WebSocket, message: string) {
    socket.send(message);
  }
}

export default {
  fetch: (request: Request, env: { ROOM: DurableObjectNamespace }) => env.ROOM.get(env.ROOM.idFromName('a')).fetch(request),
};
`,
    },
    manager: 'none',
    checks: [{ path: '/', text: /^a room$/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker of 2021, with addEventListener',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({ name: 'app', main: 'index.js', dependencies: { 'itty-router': '^2.6.6' } }),
      'wrangler.toml':
        'name = "app"\nmain = "index.js"\ncompatibility_date = "2021-11-01"\nkv_namespaces = [{ binding = "WORDS", id = "words" }]\n',
      'index.js': `import { Router } from 'itty-router';

const router = Router();
router.get('/words/:word', async ({ params }) => {
  await WORDS.put('word', params.word);
  return new Response(await WORDS.get('word'));
});
router.all('*', () => new Response('404, not found!', { status: 404 }));

addEventListener('fetch', (event) => {
  event.respondWith(router.handle(event.request));
});
`,
    },
    manager: 'npm',
    checks: [
      { path: '/words/old', text: /^old$/ },
      { path: '/', status: 404, text: /not found!/ },
    ],
    assets: false,
  },
  {
    name: 'Worker that only its script names',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({
        name: 'app',
        type: 'module',
        scripts: {
          dev: 'wrangler dev src/index.ts',
          deploy: 'wrangler deploy src/index.ts --name app --compatibility-date 2026-10-01 --assets public',
        },
        dependencies: { 'itty-router': '^5' },
      }),
      'src/index.ts':
        "import { AutoRouter } from 'itty-router';\n\nconst router = AutoRouter();\nrouter.get('/hello/:name', ({ name }) => 'Hello, ' + name + '!');\n\nexport default router;\n",
      'public/robots.txt': 'User-agent: *\n',
    },
    manager: 'pnpm',
    checks: [
      { path: '/hello/Ada', text: /^"Hello, Ada!"$/ },
      { path: '/robots.txt', text: /^User-agent/ },
    ],
    assets: false,
  },
  {
    name: 'Worker of Node modules, CommonJS',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({ name: 'app', dependencies: { express: '^5' } }),
      'wrangler.jsonc': json({
        name: 'app',
        main: 'src/index.js',
        compatibility_date: '2026-10-01',
        compatibility_flags: ['nodejs_compat'],
      }),
      'src/index.js': `import { httpServerHandler } from 'cloudflare:node';
import express from 'express';

const app = express();
app.get('/', (_request, response) => response.json({ hello: 'Express' }));
app.listen(3000);

export default httpServerHandler({ port: 3000 });
`,
    },
    manager: 'npm',
    checks: [{ path: '/', text: /"hello":"Express"/, byScript: true }],
    assets: false,
  },
  {
    name: 'Cloudflare Pages, functions',
    byHand: {
      'package.json': json({ name: 'app', scripts: { dev: 'wrangler pages dev public' } }),
      'public/index.html': '<h1>A site</h1>\n',
      'public/404.html': '<h1>Not here</h1>\n',
      'functions/_middleware.ts':
        "export const onRequest: PagesFunction[] = [async ({ next }) => {\n  const response = await next();\n  response.headers.set('x-a', 'b');\n  return response;\n}];\n",
      'functions/api/hello/[name].ts':
        'export const onRequestGet: PagesFunction = ({ params }) => Response.json({ hello: params.name });\n',
    },
    manager: 'none',
    checks: [
      { path: '/', text: /A site/ },
      { path: '/api/hello/Ada', text: /"hello":"Ada"/, byScript: true },
      { path: '/nowhere', status: 404, text: /Not here/ },
    ],
    assets: false,
  },
  {
    name: 'Cloudflare Pages, advanced mode',
    byHand: {
      'wrangler.toml': 'name = "app"\npages_build_output_dir = "dist"\ncompatibility_date = "2024-01-01"\n',
      'dist/index.html': '<h1>A site</h1>\n',
      'dist/_worker.js':
        "export default {\n  fetch(request, env) {\n    const { pathname } = new URL(request.url);\n    return pathname.startsWith('/api/') ? Response.json({ pathname }) : env.ASSETS.fetch(request);\n  },\n};\n",
    },
    manager: 'none',
    checks: [
      { path: '/', text: /A site/ },
      { path: '/api/x', text: /"pathname":"\/api\/x"/, byScript: true },
    ],
    assets: false,
  },
  {
    name: 'pnpm workspaces, one Worker',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({ name: 'all', private: true }),
      'pnpm-workspace.yaml': "packages:\n  - 'packages/*'\n",
      'packages/words/package.json': json({ name: '@all/words', version: '1.0.0', main: 'index.ts' }),
      'packages/words/index.ts': "export const word: string = 'of a package';\n",
      'packages/worker/package.json': json({
        name: '@all/worker',
        private: true,
        dependencies: { '@all/words': 'workspace:*', hono: '^4' },
      }),
      'packages/worker/wrangler.jsonc': config(),
      'packages/worker/src/index.ts':
        "import { word } from '@all/words';\nimport { Hono } from 'hono';\n\nconst app = new Hono();\napp.get('/', (c) => c.text(word));\n\nexport default app;\n",
    },
    manager: 'pnpm',
    checks: [{ path: '/', text: /^of a package$/ }],
    assets: false,
  },
  {
    name: 'npm workspaces and Turborepo, two apps',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({
        name: 'all',
        private: true,
        workspaces: ['apps/*', 'packages/*'],
        scripts: { build: 'turbo run build' },
        devDependencies: { turbo: '^2' },
        packageManager: 'npm@11.6.0',
      }),
      'turbo.json': json({
        $schema: 'https://turborepo.com/schema.json',
        tasks: { build: { dependsOn: ['^build'], outputs: ['dist/**'] } },
      }),
      'packages/words/package.json': json({
        name: '@all/words',
        version: '1.0.0',
        type: 'module',
        exports: './dist/index.js',
        scripts: { build: 'mkdir -p dist && cp index.js dist/' },
      }),
      'packages/words/index.js': "export const word = 'of a built package';\n",
      'apps/api/package.json': json({
        name: 'api',
        private: true,
        type: 'module',
        scripts: { build: 'true' },
        dependencies: { '@all/words': '*' },
      }),
      'apps/api/wrangler.jsonc': config(),
      'apps/api/src/index.ts':
        "import { word } from '@all/words';\n\nexport default { fetch: () => new Response(word) };\n",
      'apps/web/package.json': json({ name: 'web', private: true, type: 'module' }),
      'apps/web/wrangler.jsonc': json({ name: 'web', assets: { directory: 'public' } }),
      'apps/web/public/index.html': '<h1>Web</h1>\n',
    },
    settings: { root_directory: 'apps/api' },
    manager: 'npm',
    checks: [{ path: '/', text: /^of a built package$/ }],
    assets: false,
  },
  {
    name: 'Yarn workspaces, a site of Vite',
    byHand: {
      '.gitignore': GITIGNORE,
      'package.json': json({ name: 'all', private: true, workspaces: { packages: ['apps/*'] } }),
      'apps/site/package.json': json({
        name: 'site',
        private: true,
        type: 'module',
        scripts: { build: 'vite build' },
        devDependencies: { vite: '^8' },
      }),
      'apps/site/index.html': '<h1>A site</h1><script type="module" src="/main.ts"></script>\n',
      'apps/site/main.ts': "document.body.append('of a script' as string);\n",
    },
    settings: { root_directory: 'apps/site' },
    manager: 'yarn',
    checks: [{ path: '/', text: /A site/ }],
    assets: true,
  },
  {
    name: 'Worker, AI, Hyperdrive and Analytics Engine, none set up',
    byHand: {
      'wrangler.jsonc': config({
        ai: { binding: 'AI' },
        hyperdrive: [{ binding: 'SQL', id: 'sql' }],
        analytics_engine_datasets: [{ binding: 'POINTS', dataset: 'points' }],
      }),
      'src/index.ts': `const said = async (call) => { try { return await call(); } catch (error) { return error.message; } };

export default {
  async fetch(_request, env) {
    env.POINTS.writeDataPoint({ blobs: ['a'], doubles: [1], indexes: ['i'] });
    return Response.json([
      await said(() => env.AI.run('@cf/meta/llama-3.1-8b-instruct', { prompt: 'Hello' })),
      await said(() => env.SQL.connectionString),
    ]);
  },
};
`,
    },
    manager: 'none',
    checks: [{ path: '/', text: /RUNNER_AI_URL.*secret/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker, services to itself and the Cache API',
    byHand: {
      'wrangler.jsonc': config({ services: [{ binding: 'WORDS', service: 'app', entrypoint: 'Words' }] }),
      'src/index.ts': `import { WorkerEntrypoint } from 'cloudflare:workers';

export class Words extends WorkerEntrypoint {
  shout(word: string) {
    return word.toUpperCase();
  }
}

export default {
  async fetch(request: Request, env) {
    const kept = await caches.default.match(request);
    if (kept) return kept;
    const answer = new Response(await env.WORDS.shout('a word'), { headers: { 'cache-control': 'max-age=60' } });
    await caches.default.put(request, answer.clone());
    return (await caches.default.match(request)) ?? new Response('nothing kept');
  },
};
`,
    },
    manager: 'none',
    checks: [{ path: '/', text: /^A WORD$/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker, e-mail, not set up',
    byHand: {
      'wrangler.jsonc': config({ send_email: [{ name: 'MAIL' }] }),
      'src/index.ts': `export default {
  async fetch(_request, env) {
    const message = { from: 'a@example.com', to: 'b@example.com', subject: 'Hello', text: 'Hello' };
    return new Response(await env.MAIL.send(message).then(() => 'sent', (error) => error.message));
  },
};
`,
    },
    manager: 'none',
    checks: [{ path: '/', text: /RUNNER_SMTP_URL/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker with vectors',
    byHand: {
      'wrangler.jsonc': config({ vectorize: [{ binding: 'VECTORS', index_name: 'vectors' }] }),
      'src/index.ts':
        'export default { fetch: async (_: Request, env: any) => Response.json(await env.VECTORS.describe()) };\n',
    },
    manager: 'none',
    checks: [{ path: '/', text: /"vectorCount":0/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker with a container',
    byHand: {
      'wrangler.jsonc': config({
        containers: [{ class_name: 'Box', image: './Dockerfile' }],
        durable_objects: { bindings: [{ name: 'BOX', class_name: 'Box' }] },
        migrations: [{ tag: 'v1', new_sqlite_classes: ['Box'] }],
      }),
      Dockerfile: 'FROM scratch\n',
      'src/index.ts':
        "import { DurableObject } from 'cloudflare:workers';\n\nexport class Box extends DurableObject {\n  fetch() {\n    return new Response(String(this.ctx.container));\n  }\n}\nexport default { fetch: (request: Request, env: any) => env.BOX.getByName('a').fetch(request) };\n",
    },
    manager: 'none',
    checks: [{ path: '/', text: /^undefined$/, byScript: true }],
    assets: false,
  },
  {
    name: 'Worker with a browser',
    byHand: {
      'wrangler.jsonc': config({ browser: { binding: 'BROWSER' } }),
      'src/index.ts':
        "export default { fetch: (_: Request, env: any) => env.BROWSER.fetch('http://browser/v1/acquire') };\n",
    },
    manager: 'none',
    checks: [{ path: '/', text: /RUNNER_BROWSER/, byScript: true }],
    assets: false,
  },
];
