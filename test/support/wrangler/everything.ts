// A project with every kind of binding that Cellar supports, for an upload by Wrangler.

export const EVERYTHING = {
  'wrangler.jsonc': JSON.stringify({
    name: 'everything',
    main: 'src/index.js',
    compatibility_date: '2026-10-01',
    vars: { GREETING: 'hello', LIST: [1, 2] },
    assets: { directory: 'public', binding: 'ASSETS', not_found_handling: '404-page' },
    d1_databases: [{ binding: 'DB', database_name: 'notes', database_id: 'notes-id' }],
    kv_namespaces: [{ binding: 'KV', id: 'words' }],
    r2_buckets: [{ binding: 'FILES', bucket_name: 'files' }],
    vectorize: [{ binding: 'VECTORS', index_name: 'pages' }],
    durable_objects: { bindings: [{ name: 'COUNTER', class_name: 'Counter' }] },
    migrations: [{ tag: 'v1', new_sqlite_classes: ['Counter'] }],
    queues: {
      producers: [{ binding: 'QUEUE', queue: 'jobs' }],
      consumers: [{ queue: 'jobs', max_batch_size: 5, max_batch_timeout: 1 }],
    },
    ratelimits: [{ name: 'LIMIT', namespace_id: '1', simple: { limit: 0, period: 60 } }],
    services: [{ binding: 'SELF', service: 'everything', entrypoint: 'Greeter', props: { word: 'hi' } }],
    ai: { binding: 'AI' },
    images: { binding: 'IMAGES' },
    browser: { binding: 'BROWSER' },
    analytics_engine_datasets: [{ binding: 'POINTS', dataset: 'points' }],
    pipelines: [{ binding: 'EVENTS', pipeline: 'events' }],
    hyperdrive: [{ binding: 'SQL', id: 'sql' }],
    send_email: [{ name: 'MAIL', allowed_sender_addresses: ['shop@example.com'] }],
    version_metadata: { binding: 'VERSION' },
    worker_loaders: [{ binding: 'LOADER' }],
    secrets_store_secrets: [{ binding: 'STORED', store_id: 's', secret_name: 'key' }],
    dispatch_namespaces: [{ binding: 'DISPATCHER', namespace: 'customers' }],
    triggers: { crons: ['30 4 * * *'] },
  }),
  'public/index.html': '<h1>everything</h1>\n',
  'public/404.html': '<h1>nothing</h1>\n',
  'public/a b/ü.txt': 'a file with an odd name\n',
  'migrations/0001_notes.sql':
    "CREATE TABLE notes (text TEXT);\nINSERT INTO notes VALUES ('first; of all');\n",
  'src/words.txt': 'words of a module',
  'src/index.js': `import { DurableObject, WorkerEntrypoint } from 'cloudflare:workers';
import words from './words.txt';
export class Greeter extends WorkerEntrypoint {
  greet(name) {
    return this.ctx.props.word + ' ' + name;
  }
}
export class Counter extends DurableObject {
  async add() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
}
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === '/log') {
      console.log('a line for the tail');
      return new Response('logged');
    }
    if (pathname === '/limit') return Response.json(await env.LIMIT.limit({ key: 'a' }));
    if (pathname === '/described') return Response.json((await env.FILES.head('dir/a.txt')).httpMetadata);
    if (pathname === '/version') return Response.json(env.VERSION);
    if (pathname === '/load') {
      const code = 'export default { fetch: () => new Response("loaded") }';
      const described = { compatibilityDate: '2026-10-01', mainModule: 'a.js', modules: { 'a.js': code } };
      return env.LOADER.load(described).getEntrypoint().fetch(request);
    }
    if (pathname !== '/all') return env.ASSETS.fetch(request);
    await env.KV.put('from-app', 'kept');
    await env.QUEUE.send('job');
    const notes = await env.DB.prepare('SELECT name FROM sqlite_master').all();
    return Response.json({
      words,
      greeting: env.GREETING,
      extra: env.EXTRA ?? null,
      list: env.LIST,
      secret: env.SECRET ?? null,
      greeted: await env.SELF.greet('you'),
      tables: notes.results.map(({ name }) => name),
      count: await env.COUNTER.getByName('one').add(),
      files: (await env.FILES.list()).objects.map(({ key }) => key),
    });
  },
  async queue() {},
  async scheduled() {},
};
`,
};
