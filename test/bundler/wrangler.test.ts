import assert from 'node:assert/strict';
import fs, { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { join, relative } from 'node:path';
import { after, test } from 'node:test';
import { copyMigrations } from '../../bundler/bindings/migrations.ts';
import { pipelineBindings } from '../../bundler/bindings/pipelines.ts';
import { requireBundleSize } from '../../bundler/bundle-size-limit.ts';
import { nestedKeys, topLevelKeys } from '../../bundler/configuration/wrangler-keys.ts';
import { bindingsOf } from '../../bundler/upload/bindings.ts';
import { readMetadata } from '../../bundler/upload/metadata.ts';
import type { Files } from '../support/builds/projects.ts';
import { makeWorktrees, wranglerProject } from '../support/bundler/worktree.ts';

const worktrees = makeWorktrees();
after(worktrees.remove);

const refuses = async (config: Record<string, unknown>, message: RegExp) =>
  assert.rejects(worktrees.bundle(wranglerProject(config)), (error: Error) => {
    assert.equal(error.name, 'BuildFailure', error.stack ?? '');
    assert.match(error.message, message);
    return true;
  });

/** Asserts that a configuration deploys with a warning in the log and in the release. Returns the release. */
const warns = async (config: Record<string, unknown>, warning: RegExp) => {
  const { bundle, notes } = await worktrees.bundle(wranglerProject(config));
  assert.match((bundle.warnings ?? []).join('\n'), warning);
  for (const each of bundle.warnings ?? []) assert.ok(notes.includes(`warning: ${each}`), notes.join('\n'));
  return bundle;
};

test('the table of keys has exactly the keys that wrangler knows', () => {
  const path = createRequire(import.meta.url)
    .resolve('wrangler/package.json')
    .replace('package.json', 'config-schema.json');
  const schema = JSON.parse(readFileSync(path, 'utf8'));
  const { RawConfig, ...definitions } = schema.definitions;
  assert.deepEqual(Object.keys(topLevelKeys).sort(), Object.keys(RawConfig.properties).sort());
  const properties: Record<string, object> = {
    assets: definitions.Assets.properties,
    triggers: RawConfig.properties.triggers.properties,
    queues: RawConfig.properties.queues.properties,
    'queues.producers[]': RawConfig.properties.queues.properties.producers.items.properties,
    'queues.consumers[]': RawConfig.properties.queues.properties.consumers.items.properties,
    durable_objects: definitions.RawDurableObjectsConfig.properties,
    'migrations[]': definitions.DurableObjectMigration.properties,
    'd1_databases[]': RawConfig.properties.d1_databases.items.properties,
    'kv_namespaces[]': RawConfig.properties.kv_namespaces.items.properties,
    'r2_buckets[]': RawConfig.properties.r2_buckets.items.properties,
  };
  for (const [place, known] of Object.entries(properties)) {
    for (const key of Object.keys(known)) assert.ok(key in nestedKeys[place]!, `${place}.${key}`);
  }
});

test('every supported key reaches the bundle', async () => {
  const { bundle, notes, read } = await worktrees.bundle(
    wranglerProject(
      {
        compatibility_flags: ['nodejs_compat'],
        vars: { TEXT: 'a', OBJECT: { b: [1] } },
        durable_objects: {
          bindings: [
            { name: 'ROOM', class_name: 'Room', script_name: 'x' },
            { name: 'HALL', class_name: 'Hall', script_name: 'halls' },
          ],
        },
        migrations: [
          { tag: 'v1', new_classes: ['Legacy'], new_sqlite_classes: ['Room'] },
          { tag: 'v2', renamed_classes: [{ from: 'Legacy', to: 'Other' }], deleted_classes: ['Gone'] },
        ],
        d1_databases: [
          { binding: 'BY_ID', database_id: 'id', database_name: 'name', migrations_dir: 'sql' },
          { binding: 'BY_NAME', database_name: 'name' },
          { binding: 'BARE', migrations_table: 'applied' },
        ],
        kv_namespaces: [{ binding: 'KV', id: 'kv-id' }, { binding: 'BARE_KV' }],
        r2_buckets: [{ binding: 'R2', bucket_name: 'files' }, { binding: 'BARE_R2' }],
        workflows: [
          { binding: 'FLOW', name: 'flow', class_name: 'Other', script_name: 'x', limits: { steps: 9 } },
          {
            binding: 'KEPT',
            name: 'kept',
            class_name: 'Room',
            default_retention: { error_retention: '1 day' },
          },
        ],
        ratelimits: [{ name: 'LIMIT', namespace_id: '7', simple: { limit: 3, period: 60 } }],
        unsafe: {
          bindings: [
            { name: 'OLDER', type: 'ratelimit', namespace_id: '8', simple: { limit: 1, period: 10 } },
          ],
        },
        ai: { binding: 'AI', remote: true },
        images: { binding: 'IMAGES', remote: true },
        browser: { binding: 'BROWSER' },
        hyperdrive: [{ binding: 'SQL', id: 'h' }],
        analytics_engine_datasets: [{ binding: 'POINTS', dataset: 'clicks' }, { binding: 'BARE_POINTS' }],
        send_email: [
          { name: 'ONE', destination_address: 'a@b.c', remote: true },
          { name: 'SOME', allowed_destination_addresses: ['a@b.c'], allowed_sender_addresses: [] },
        ],
        version_metadata: { binding: 'VERSION' },
        worker_loaders: [{ binding: 'LOADER' }],
        dispatch_namespaces: [
          {
            binding: 'DISPATCHER',
            namespace: 'customers',
            outbound: { service: 'egress', parameters: ['customer'] },
          },
        ],
        tail_consumers: [{ service: 'tail' }, { service: 'tail' }],
        assets: {
          directory: './public',
          binding: 'ASSETS',
          run_worker_first: true,
          html_handling: 'none',
          base_path: '/docs',
        },
      },
      { 'sql/10_b.sql': '10', 'sql/2_a.sql': '2', 'sql/notes.md': '', 'public/a.txt': 'asset' },
    ),
  );
  assert.deepEqual(notes.slice(-2), ['Worker: index.js', 'assets: 1 file in public']);
  assert.deepEqual(bundle.worker?.compatibilityFlags, ['nodejs_compat']);
  assert.deepEqual(bundle.exports.toSorted(), ['Other', 'Room', 'default']);
  assert.deepEqual(bundle.buckets, [
    { binding: 'R2', key: 'files' },
    { binding: 'BARE_R2', key: 'BARE_R2' },
  ]);
  assert.deepEqual(bundle.workflows, [
    { binding: 'FLOW', name: 'flow', className: 'Other', steps: 9 },
    { binding: 'KEPT', name: 'kept', className: 'Room', retention: { error: '1 day' } },
  ]);
  assert.deepEqual(bundle.rateLimits, [
    { binding: 'LIMIT', namespace: '7', limit: 3, period: 60 },
    { binding: 'OLDER', namespace: '8', limit: 1, period: 10 },
  ]);
  assert.deepEqual(bundle.outward, [
    { type: 'ai', binding: 'AI' },
    { type: 'images', binding: 'IMAGES' },
    { type: 'browser', binding: 'BROWSER' },
    { type: 'hyperdrive', binding: 'SQL', id: 'h' },
    { type: 'analytics_engine', binding: 'POINTS', dataset: 'clicks' },
    { type: 'analytics_engine', binding: 'BARE_POINTS', dataset: 'BARE_POINTS' },
    { type: 'send_email', binding: 'ONE', destination_address: 'a@b.c' },
    {
      type: 'send_email',
      binding: 'SOME',
      allowed_destination_addresses: ['a@b.c'],
      allowed_sender_addresses: [],
    },
  ]);
  assert.deepEqual(bundle.versionMetadata, { binding: 'VERSION', tag: '' });
  assert.deepEqual(bundle.workerLoaders, [{ binding: 'LOADER' }]);
  assert.deepEqual(bundle.dispatchNamespaces, [
    {
      binding: 'DISPATCHER',
      namespace: 'customers',
      outbound: { service: 'egress', parameters: ['customer'] },
    },
  ]);
  assert.deepEqual(bundle.tailConsumers, ['tail']);
  assert.deepEqual(bundle.vars, { TEXT: 'a', OBJECT: { b: [1] } });
  assert.deepEqual(bundle.durableObjects, [{ binding: 'ROOM', className: 'Room' }]);
  assert.deepEqual(bundle.objectsElsewhere, [{ binding: 'HALL', script: 'halls', className: 'Hall' }]);
  assert.deepEqual(bundle.classMigrations, [
    { tag: 'v1', newClasses: ['Legacy'], newSqliteClasses: ['Room'], renamedClasses: [], deletedClasses: [] },
    {
      tag: 'v2',
      newClasses: [],
      newSqliteClasses: [],
      renamedClasses: [{ from: 'Legacy', to: 'Other' }],
      deletedClasses: ['Gone'],
    },
  ]);
  assert.deepEqual(
    bundle.databases.map(({ binding, key, name, migrations, migrationsTable }) => [
      binding,
      key,
      name,
      migrations.map(({ name }) => name),
      migrationsTable,
    ]),
    [
      ['BY_ID', 'id', 'name', ['2_a.sql', '10_b.sql'], undefined],
      ['BY_NAME', 'name', 'name', [], undefined],
      ['BARE', 'BARE', undefined, [], 'applied'],
    ],
  );
  assert.equal(read(bundle.databases[0]!.migrations[1]!.path), '10');
  assert.deepEqual(bundle.namespaces, [
    { binding: 'KV', key: 'kv-id' },
    { binding: 'BARE_KV', key: 'BARE_KV' },
  ]);
  assert.deepEqual(bundle.assets, {
    directory: 'assets',
    binding: 'ASSETS',
    notFoundHandling: 'none',
    htmlHandling: 'none',
    runWorkerFirst: true,
    basePath: '/docs',
    rules: {},
  });
});

test('migrations of a database must be inside their folder', async () => {
  const database = { binding: 'DB', migrations_dir: 'a/b/sql' };
  const files = { 'a/b/out.sql': '1', 'a/b/sql/x/in.sql': '2', 'a/b/sql/top.sql': '3' };
  const refusal =
    /^BuildFailure: d1_databases\.migrations_pattern of DB: after a\/b\/sql\/ it may have .* no "\.\."$/;
  for (const pattern of ['{..,x}/*.sql', '{..,q}/{..,q}/{..,q}/{..,q}/etc/p*', '{1..9}.sql'].concat(
    '{a,b}'.repeat(20),
    'a'.repeat(300),
  )) {
    const escaping = { ...database, migrations_pattern: `a/b/sql/${pattern}` };
    await assert.rejects(
      worktrees.bundle(wranglerProject({ d1_databases: [escaping] }, files)),
      (error) => refusal.test(String(error)),
      pattern,
    );
  }
  const namesOf = async (found: object) => {
    const { bundle } = await worktrees.bundle(
      wranglerProject({ d1_databases: [{ binding: 'DB', ...found }] }, files),
    );
    return bundle.databases[0]!.migrations.map(({ name }) => name);
  };
  const matched = (glob: string) => namesOf({ ...database, migrations_pattern: `./a/b/sql/${glob}` });
  assert.deepEqual(await matched('*/*.sql'), ['x/in.sql']);
  assert.deepEqual(await matched('{x,y}/*.sql'), ['x/in.sql']);
  assert.deepEqual(await matched('**/*.sql'), ['top.sql', 'x/in.sql']);
  assert.deepEqual(await namesOf({ migrations_dir: 'a/b/.' }), ['out.sql']);
});

test('migrations may lie in the folder of the configuration', async () => {
  const files = { '1_a.sql': '1', 'x/2_b.sql': '2' };
  for (const [database, names] of [
    [{ migrations_dir: '.' }, ['1_a.sql']],
    [{ migrations_dir: './', migrations_pattern: './x/*.sql' }, ['x/2_b.sql']],
  ] as const) {
    const settings = { d1_databases: [{ binding: 'DB', ...database }] };
    const { bundle } = await worktrees.bundle(wranglerProject(settings, files));
    assert.deepEqual(
      bundle.databases[0]!.migrations.map(({ name }) => name),
      names,
    );
  }
});

test('folders that a pattern of migrations does not name are not read', (t) => {
  const worktree = worktrees.write({ 'db/sql/x/1_a.sql': '1', 'node_modules/a/1_b.sql': '' });
  const reads = t.mock.method(fs, 'readdirSync');
  syncBuiltinESMExports();
  t.after(() => {
    reads.mock.restore();
    syncBuiltinESMExports();
  });
  const names = (migrations_pattern: string) => {
    const database = { binding: 'DB', migrations_dir: '.', migrations_pattern };
    const copied = copyMigrations(worktree, worktree, database, `${worktree}-out`, 'm', []);
    return copied.map(({ name }) => name);
  };
  assert.deepEqual(names('./db/sql/**/*.sql'), ['db/sql/x/1_a.sql']);
  assert.deepEqual(names('./none/**/*.sql'), []);
  const folders = reads.mock.calls.map((call) => relative(worktree, String(call.arguments[0])));
  assert.deepEqual(folders, ['db/sql', 'db/sql/x']);
});

test('an entry may lack its extension, assets may be in a package, and a migrations folder may be missing', async () => {
  const shop = 'node_modules/shop/dist';
  const settings = {
    main: 'src/entry',
    assets: { directory: `./${shop}` },
    d1_databases: [{ binding: 'DB', migrations_dir: 'drizzle' }],
  };
  const { bundle, notes, read } = await worktrees.bundle(
    wranglerProject(settings, {
      'src/entry.js': 'export default { fetch() { return new Response("not this") } }',
      'src/entry.ts': 'export default { fetch(): Response { return new Response("typed") } }',
      [`${shop}/a.txt`]: 'asset',
    }),
  );
  assert.match(read(bundle.worker!.modules[0]!.path), /typed/);
  assert.equal(bundle.worker!.main, 'src/entry.ts');
  assert.equal(read('assets/a.txt'), 'asset');
  assert.deepEqual(bundle.databases[0]!.migrations, []);
  const missing =
    /^warning: d1_databases\.migrations_dir of DB: there is no drizzle, so no migration is applied$/;
  assert.ok(
    notes.some((note) => missing.test(note)),
    notes.join('\n'),
  );
  const entry = worktrees.bundle(wranglerProject({ main: 'src/none' }));
  await assert.rejects(entry, /^BuildFailure: main: there is no src\/none/);
});

test('an unknown key has a warning, even one that every object inherits', async () => {
  await warns({ constructor: { binding: 'A' } }, /unknown key "constructor"/);
  await warns(
    { version_metadata: { binding: 'V', valueOf: 1 } },
    /unknown key "valueOf" in version_metadata/,
  );
});

test('an unavailable feature deploys with a warning, and all such features are named', async () => {
  await warns(
    {
      media: { binding: 'M' },
      queues: { consumers: [{ queue: 'queue', visibility_timeout_ms: 1000 }] },
      services: [{ binding: 'S', service: 'other', environment: 'staging' }],
    },
    /(?=.*"media")(?=.*"queues\.consumers\.visibility_timeout_ms")(?=.*"services\.environment")/s,
  );
});

test('namespaces and databases with equal ids get a warning', async () => {
  const id = 'YOUR_ID_HERE';
  const named = [...['A', 'B'].map((binding) => ({ binding, id })), { binding: 'C', id: 'c' }];
  await warns({ kv_namespaces: named }, /A, B are one KV namespace.*YOUR_ID_HERE/);
  const databases = ['A', 'C'].map((binding) => ({ binding, database_name: binding, database_id: id }));
  const { warnings } = await warns({ d1_databases: databases }, /A, C are one D1 database/);
  assert.equal(warnings!.length, 1);
  const without = { kv_namespaces: ['A', 'B'].map((binding) => ({ binding })) };
  assert.equal((await worktrees.bundle(wranglerProject(without))).bundle.warnings, undefined);
});

test('a pipeline writes into the bucket with its name, or into the only one', () => {
  const bucket = (binding: string, key: string) => ({ binding, key });
  const [files, events] = [bucket('FILES', 'files'), bucket('EVENTS_FILES', 'events')];
  const bound = (buckets: { binding: string; key: string }[], given: object = { pipeline: 'events' }) =>
    pipelineBindings([{ binding: 'P', ...given }], buckets).map(({ pipeline, bucket }) => [pipeline, bucket]);
  assert.deepEqual(bound([files, events]), [['events', 'EVENTS_FILES']]);
  assert.deepEqual(bound([files]), [['events', 'FILES']]);
  assert.deepEqual(bound([files], { stream: 'id-1' }), [['id-1', 'FILES']]);
  assert.throws(() => bound([]), /P: add a bucket to "r2_buckets" with the "bucket_name" "events"/);
  assert.throws(() => bound([files, bucket('B', 'b')]), /add a bucket/);
  for (const wrong of ['', 'a/b', 'x'.repeat(129)])
    assert.throws(() => bound([files], { pipeline: wrong }), /the name of a pipeline has 1 to 128 letters/);
});

/** Configurations with bindings that Cellar lacks, the names of these bindings, and the advice in the warning. */
const UNAVAILABLE: [config: Record<string, unknown>, bindings: string[], advice: RegExp][] = [
  [{ streaming_tail_consumers: [{ service: 's' }] }, [], /name the app in "tail_consumers"/],
  [{ logfwdr: { bindings: [{ name: 'F', destination: 'd' }] } }, ['F'], /"logfwdr"/],
  [{ media: { binding: 'A' } }, ['A'], /"media"/],
  [
    { unsafe: { bindings: [{ name: 'U', type: 'secret_thing' }] } },
    ['U'],
    /U is not available .*secret_thing/,
  ],
  [
    { workflows: [{ binding: 'W', name: 'w', class_name: 'Other', script_name: 'billing' }] },
    ['W'],
    /W is not available .* another Worker, billing/,
  ],
];

for (const [config, bindings, advice] of UNAVAILABLE)
  test(`${Object.keys(config)[0]} deploys with a warning, and its binding throws`, async () => {
    const { outward = [] } = await warns(config, advice);
    assert.deepEqual(
      outward.map(({ type, binding }) => [type, binding]),
      bindings.map((binding) => ['missing', binding]),
    );
  });

test('a class has containers of a named image', async () => {
  const withContainer = (container: object) => ({
    durable_objects: { bindings: [{ name: 'ROOM', class_name: 'Room' }] },
    migrations: [{ tag: 'v1', new_sqlite_classes: ['Room'] }],
    containers: [{ class_name: 'Room', image: 'localhost/worker:1', ...container }],
  });
  const containersOf = async (container: object) =>
    (await worktrees.bundle(wranglerProject(withContainer(container)))).bundle.containers;
  const lite = { className: 'Room', image: 'localhost/worker:1', memoryMb: 256, cpu: 63, instances: 20 };
  assert.deepEqual(await containersOf({}), [lite]);
  assert.deepEqual(await containersOf({ instance_type: 'basic', max_instances: 3 }), [
    { ...lite, memoryMb: 1024, cpu: 250, instances: 3 },
  ]);
  assert.deepEqual(await containersOf({ instance_type: { vcpu: 0.5, memory_mib: 2048 } }), [
    { ...lite, memoryMb: 2048, cpu: 500 },
  ]);
  await assert.rejects(
    worktrees.bundle({
      ...wranglerProject(withContainer({ image: 'Dockerfile' })),
      Dockerfile: 'FROM scratch\n',
    }),
    /Room: image: Cellar builds no images. Build the image on Cellar's machine/,
  );
  await refuses(withContainer({ image: 'Dockerfile' }), /not appear to be a valid path to a Dockerfile/);
  await refuses(withContainer({ class_name: 'Other' }), /Other: class_name: no binding in .* has this class/);
});

test('addresses of send_email must be lists of addresses with a limited length', async () => {
  await refuses(
    { send_email: [{ name: 'M', allowed_sender_addresses: 'a@b.c' }] },
    /"allowed_sender_addresses"/,
  );
  await refuses(
    { send_email: [{ name: 'M', allowed_sender_addresses: [1] }] },
    /the send_email binding M: "allowed_sender_addresses" must be a list of e-mail addresses/,
  );
  const many = Array.from({ length: 2_000 }, (_, n) => `somebody-${n}@example.com`);
  await refuses(
    { send_email: [{ name: 'M', allowed_destination_addresses: many }] },
    /the addresses of the send_email binding M have more than 32768 characters in all/,
  );
});

test('a Workflow is exported and has its own name and class', async () => {
  const flow = { binding: 'W', name: 'w', class_name: 'Room' };
  const bound = (...workflows: object[]) => ({ workflows });
  await refuses(
    bound({ ...flow, class_name: 'Gone' }),
    /workflows: w: the Worker does not export a class Gone/,
  );
  await refuses(
    bound(flow, { ...flow, binding: 'V', name: 'v' }),
    /class Room has two names, w and v: give each/,
  );
  await refuses(
    bound(flow, { ...flow, binding: 'V', class_name: 'Other' }),
    /must have unique "name" values/,
  );
  await warns(
    bound({ ...flow, schedules: '* * * * *' }),
    /"workflows\.schedules" is not available here: create/,
  );
  await refuses(bound({ ...flow, name: '../up' }), /"name" field is invalid/);
});

test('an invalid rate limit is refused', async () => {
  const limit = { name: 'L', type: 'ratelimit', namespace_id: '1', simple: { limit: 1, period: 10 } };
  const below = (binding: object) => ({ unsafe: { bindings: [binding] } });
  await refuses(
    below({ ...limit, simple: { limit: 1, period: 11 } }),
    /limit L: simple\.period must be 10 or 60/,
  );
  await refuses(
    below({ ...limit, simple: { limit: 0.5, period: 10 } }),
    /limit L: simple\.limit must be a whole/,
  );
  await refuses(below({ ...limit, namespace_id: undefined }), /limit L: namespace_id is missing/);
});

test('a deploy warns of unknown keys at the top level and below', async () => {
  await warns({ d1_database: [] }, /: unknown key "d1_database" \(did you mean "d1_databases"\?\)$/);
  await warns({ colour: 'red', mian: 'x' }, /: unknown keys "colour", "mian" \(did you mean "main"\?\)$/);
  await warns(
    { d1_databases: [{ binding: 'A', database_names: 'b' }] },
    /^wrangler.jsonc: unknown key "database_names" \(did you mean "database_name"\?\) in d1_databases\[0\]$/,
  );
  // Wrangler itself does not check the keys of a service binding.
  await warns(
    { services: [{ binding: 'A', service: 'b', entripoint: 'c' }] },
    /^wrangler.jsonc: unknown key "entripoint" \(did you mean "entrypoint"\?\) in services$/,
  );
});

test('empty values of unsupported keys are ignored', async () => {
  await worktrees.bundle(
    wranglerProject({ queues: { producers: [], consumers: [] }, triggers: { crons: [] }, services: [] }),
  );
});

test('settings without effect are logged once for each reason', async () => {
  const { notes } = await worktrees.bundle(
    wranglerProject({
      observability: { enabled: true },
      logpush: true,
      route: 'example.com/*',
      env: { staging: {} },
      dev: { port: 1 },
    }),
  );
  assert.deepEqual(notes.slice(0, 3).toSorted(), [
    'wrangler.jsonc: env ignored: the top level is deployed; the variable CLOUDFLARE_ENV names an environment',
    'wrangler.jsonc: logpush, observability ignored: Cellar keeps logs and metrics of each app itself',
    'wrangler.jsonc: route ignored: add hostnames to the app as domains',
  ]);
});

test("wrangler's own diagnostics are the error message", async () => {
  await refuses(
    { d1_databases: [{ database_name: 'x' }] },
    /^wrangler\.jsonc: "d1_databases\[0\]" bindings should have a string "binding"/,
  );
  await assert.rejects(
    worktrees.bundle({ 'wrangler.toml': 'name = "x"\nmain = ' }),
    /^BuildFailure: wrangler\.toml:2:7: Invalid TOML document: invalid value/,
  );
  await assert.rejects(
    worktrees.bundle({ 'wrangler.jsonc': '{ "name": "x" "main": "index.js" }' }),
    /^BuildFailure: wrangler\.jsonc:1:\d+: comma expected$/,
  );
});

test('a missing compatibility date is chosen and logged, and a future one is refused', async () => {
  const { bundle, notes } = await worktrees.bundle(wranglerProject({ compatibility_date: undefined }));
  assert.match(bundle.worker!.compatibilityDate, /^20\d\d-\d\d-\d\d$/);
  assert.ok(
    notes.some((note) =>
      note.includes(
        `compatibility_date is missing, so each deploy uses the newest one, now ${bundle.worker!.compatibilityDate}`,
      ),
    ),
  );
  await refuses({ compatibility_date: '2099-01-01' }, /compatibility_date 2099-01-01 is in the future/);
});

test('a compatibility date after that of workerd is lowered, and that is logged', async (t) => {
  const { compatibilityDate: newest } = createRequire(import.meta.url)('workerd');
  const today = new Date().toISOString().slice(0, 10);
  if (newest >= today) return t.skip('workerd is of today');
  const { bundle, notes } = await worktrees.bundle(wranglerProject({ compatibility_date: today }));
  assert.equal(bundle.worker!.compatibilityDate, newest);
  assert.ok(
    notes.includes(
      `wrangler.jsonc: compatibility_date ${today} is newer than the workerd of this Cellar supports: the app uses ${newest}`,
    ),
  );
});

test('a warning of wrangler is shown whole, with its example', async () => {
  const { notes } = await worktrees.bundle(
    wranglerProject({ durable_objects: { bindings: [{ name: 'ROOM', class_name: 'Room' }] } }),
  );
  const warning = notes.find((note) => note.includes('durable_objects'));
  assert.match(warning!, /Add the following configuration:\n +\{\n[\s\S]*"storage": "sqlite"[\s\S]*\}$/);
  assert.doesNotMatch(warning!, /```/);
});

test('classes must be exported', async () => {
  const bind = (binding: object) => ({ durable_objects: { bindings: [{ name: 'ROOM', ...binding }] } });
  await refuses(bind({ class_name: 'Missing' }), /ROOM: the Worker does not export a class Missing/);
  await refuses(
    {
      migrations: [
        { tag: 'v1', new_classes: ['Room'] },
        { tag: 'v1', new_classes: ['Other'] },
      ],
    },
    /the tag v1 occurs twice/,
  );
});

test('declared exports make and rename classes', async () => {
  const { bundle } = await worktrees.bundle(
    wranglerProject({
      durable_objects: { bindings: [{ name: 'ROOM', class_name: 'Room' }] },
      exports: {
        Room: { type: 'durable-object', storage: 'sqlite' },
        Old: { type: 'durable-object', state: 'renamed', renamed_to: 'Room' },
        Gone: { type: 'durable-object', state: 'deleted' },
      },
    }),
  );
  assert.deepEqual(bundle.classMigrations, [
    {
      tag: null,
      newClasses: [],
      newSqliteClasses: ['Room'],
      renamedClasses: [{ from: 'Old', to: 'Room' }],
      deletedClasses: ['Gone'],
    },
  ]);
});

test("the configuration that a build tool wrote replaces the project's own", async () => {
  const files = wranglerProject(
    { assets: { not_found_handling: 'single-page-application' } },
    {
      '.wrangler/deploy/config.json': '{"configPath": "../../dist/x/wrangler.json", "auxiliaryWorkers": []}',
      'dist/x/wrangler.json': JSON.stringify({
        configPath: '/elsewhere/wrangler.jsonc',
        userConfigPath: '/elsewhere/wrangler.jsonc',
        topLevelName: 'x',
        name: 'x',
        main: 'main.js',
        compatibility_date: '2026-10-01',
        no_bundle: true,
        rules: [{ type: 'ESModule', globs: ['**/*.js'] }],
        assets: { directory: '../client' },
      }),
      'dist/x/main.js':
        'import { name } from "./chunk.js"; export default { fetch() { return new Response(name) } }',
      'dist/x/chunk.js': 'export const name = "of the chunk"',
      'dist/client/index.html': '<h1>Client</h1>',
    },
  );
  const { bundle, notes, read } = await worktrees.bundle(files);
  assert.match(read(bundle.worker!.modules[0]!.path), /of the chunk/);
  assert.equal(read('assets/index.html'), '<h1>Client</h1>');
  assert.ok(notes.includes('dist/x/wrangler.json: no_bundle ignored: Cellar always bundles modules'));
  const outside = {
    ...files,
    '.wrangler/deploy/config.json': '{"configPath": "../../../other/wrangler.json"}',
  };
  await assert.rejects(worktrees.bundle(outside), /^BuildFailure: .*lies outside the project/);
  const auxiliaryWorkers = [{ configPath: '../../dist/api/wrangler.json' }];
  const several = await worktrees.bundle({
    ...files,
    '.wrangler/deploy/config.json': JSON.stringify({
      configPath: '../../dist/x/wrangler.json',
      auxiliaryWorkers,
    }),
  });
  assert.equal(several.bundle.worker!.main, 'dist/x/main.js');
  assert.match(
    several.notes.join('\n'),
    /^auxiliary Workers \(dist\/api\/wrangler\.json\) are apps of their own/m,
  );
});

test('the arguments of the deploy script apply to the configuration that a build tool wrote', async () => {
  const written = (deploy: string, config: object = {}) => ({
    'package.json': JSON.stringify({ scripts: { deploy } }),
    'static/a.txt': 'static',
    '.wrangler/deploy/config.json': '{"configPath": "../../dist/x/wrangler.json"}',
    'dist/x/wrangler.json': JSON.stringify({
      name: 'x',
      main: 'main.js',
      vars: { A: 'a', B: 'b' },
      ...config,
    }),
    'dist/x/main.js': 'export default { fetch() {} }',
    'dist/x/site/index.html': '<h1>Written</h1>',
  });
  const deploy =
    'vite build && wrangler deploy --var RELEASE:1 --var B:2 --assets static --compatibility-date 2026-09-01';
  for (const files of [written(deploy), wranglerProject({}, written(deploy))]) {
    const { bundle, list } = await worktrees.bundle(files);
    assert.equal(bundle.worker!.main, 'dist/x/main.js');
    assert.equal(bundle.worker!.compatibilityDate, '2026-09-01');
    assert.deepEqual(bundle.vars, { A: 'a', B: '2', RELEASE: '1' });
    assert.ok(list().includes('assets/a.txt'));
  }
  // The folder that a build wrote into the configuration of a Pages project stays.
  const pages = await worktrees.bundle(
    written('vite build && wrangler pages deploy static', {
      main: undefined,
      pages_build_output_dir: 'site',
    }),
  );
  assert.deepEqual(pages.list(), ['assets/index.html']);
  const services = [{ binding: 'SELF', service: 'shop' }];
  for (const files of [
    written('wrangler deploy --name shop', { services }),
    wranglerProject(
      { services },
      { 'package.json': '{"scripts": {"deploy": "wrangler deploy --name shop"}}' },
    ),
  ])
    assert.deepEqual((await worktrees.bundle(files)).bundle.services, [{ binding: 'SELF', service: null }]);
  // A configuration that the script names is deployed itself, also if the build writes it.
  const named = (path: string, more: Files = {}) =>
    worktrees.bundle(
      wranglerProject({}, { ...written(`vite build && wrangler deploy -c ${path}`), ...more }),
    );
  const own = { 'wrangler.prod.jsonc': '{"name": "x", "main": "index.js", "vars": {"A": "own"}}' };
  assert.deepEqual((await named('wrangler.prod.jsonc', own)).bundle.vars, { A: 'own' });
  const stale = { ...own, '.wrangler/deploy/config.json': '{"configPath": "../../gone.json"}' };
  assert.deepEqual((await named('./wrangler.prod.jsonc', stale)).bundle.vars, { A: 'own' });
  assert.equal((await named('dist/x/wrangler.json')).bundle.worker!.main, 'dist/x/main.js');
  const trial = { ...written(''), 'package.json': '{"scripts": {"trial": "wrangler deploy --var A:t"}}' };
  assert.equal((await worktrees.bundle(trial)).bundle.vars.A, 'a');
});

test('the configuration that a build tool wrote works without another one beside it', async (t) => {
  // By default the data directory is in Cellar's own folder, which has such a file too.
  const above = join(worktrees.root, 'wrangler.toml');
  writeFileSync(above, 'name = "above"');
  t.after(() => rmSync(above));
  const { bundle, read } = await worktrees.bundle({
    '.wrangler/deploy/config.json': '{"configPath": "../../.output/server/wrangler.json"}',
    '.output/server/wrangler.json': JSON.stringify({
      name: 'x',
      main: 'index.mjs',
      compatibility_date: '2026-10-01',
      assets: { binding: 'ASSETS', directory: '../public' },
    }),
    '.output/server/index.mjs': 'export default { fetch() { return new Response("of the build") } }',
    '.output/public/a.txt': 'asset',
  });
  assert.match(read(bundle.worker!.modules[0]!.path), /of the build/);
  assert.equal(read('assets/a.txt'), 'asset');
});

test("the project's own configuration determines the migrations, whatever a build tool wrote", async () => {
  const databases = { d1_databases: [{ binding: 'DB' }, { binding: 'OTHER', migrations_dir: 'sql' }] };
  const written = { ...databases, name: 'x', main: '../index.js' };
  const { bundle } = await worktrees.bundle(
    wranglerProject(databases, {
      '.wrangler/deploy/config.json': '{"configPath": "../../dist/wrangler.json"}',
      'dist/wrangler.json': JSON.stringify(written),
      'migrations/1_a.sql': '1',
      'sql/1_b.sql': '2',
    }),
  );
  assert.deepEqual(
    bundle.databases.map(({ migrations }) => migrations.map(({ name }) => name)),
    [['1_a.sql'], ['1_b.sql']],
  );
});

test('keys that an older build tool writes are accepted as in Wrangler', async () => {
  const built = {
    '.wrangler/deploy/config.json': '{"configPath": "../../dist/wrangler.json"}',
    'dist/wrangler.json': JSON.stringify({ name: 'x', main: '../index.js', legacy_env: true }),
  };
  const { bundle, notes } = await worktrees.bundle(wranglerProject({}, built));
  assert.equal(bundle.warnings, undefined, notes.join('\n'));
});

test('the top level is deployed unless an environment is named', async () => {
  const project = wranglerProject({
    vars: { PLACE: 'top' },
    kv_namespaces: [{ binding: 'KV', id: 'a' }],
    env: {
      staging: { vars: { PLACE: 'staging' }, kv_namespaces: [{ binding: 'KV', id: 'b' }] },
      bad: { media: { binding: 'B' } },
    },
  });
  const top = await worktrees.bundle(project);
  assert.deepEqual([top.bundle.vars.PLACE, top.bundle.namespaces[0]!.key], ['top', 'a']);
  assert.match(top.notes.join(), /env ignored: the top level is deployed; the variable CLOUDFLARE_ENV/);
  const staging = await worktrees.bundle(project, 'staging');
  assert.deepEqual([staging.bundle.vars.PLACE, staging.bundle.namespaces[0]!.key], ['staging', 'b']);
  assert.ok(staging.notes.includes('wrangler.jsonc: environment staging'), staging.notes.join('\n'));
  assert.doesNotMatch(staging.notes.join(), /env ignored/);
  await assert.rejects(worktrees.bundle(project, 'nowhere'), /no environment.*"nowhere"/is);
  const bad = await worktrees.bundle(project, 'bad');
  assert.match(bad.bundle.warnings!.join(), /"media" is not available here/);
});

test('a configuration of very many small values is refused, because the host reads release descriptions whole', async () => {
  const vars = { MANY: Array.from({ length: 25_000 }, () => []) };
  await refuses({ vars }, /have \d+ names and values in all; at most 25000 are allowed$/);
});

test('a configuration of deeply nested values is refused', async () => {
  const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth));
  const deep = /vars\.DEEP: a value is nested 4002 levels deep; at most 100 are allowed$/;
  await refuses({ vars: { FLAT: [1], DEEP: nested(4_000) } }, deep);
  const { bundle } = await worktrees.bundle(wranglerProject({ vars: { DEEP: nested(98) } }));
  const uploaded = { ...bundle, vars: { DEEP: nested(4_000) } };
  assert.throws(() => requireBundleSize(uploaded), deep);
});

test("an upload of Wrangler gets a push's warnings about environments and streaming tail consumers", async () => {
  const elsewhere = { service: 'other', environment: 'staging' };
  const objects = { name: 'ROOM', class_name: 'Room', script_name: 'other', environment: 'staging' };
  const passed = { tail_consumers: [elsewhere], streaming_tail_consumers: [{ service: 'other' }] };
  const { bundle } = await worktrees.bundle(
    wranglerProject({
      ...passed,
      services: [{ binding: 'OTHER', ...elsewhere }],
      durable_objects: { bindings: [objects] },
    }),
  );
  const upload = readMetadata(
    JSON.stringify({
      ...passed,
      bindings: [
        { type: 'service', name: 'OTHER', ...elsewhere },
        { type: 'durable_object_namespace', ...objects },
      ],
    }),
  );
  const from = { live: null, secrets: [], keys: {}, script: 'app' };
  const { warnings } = bindingsOf(upload, from, ['default']);
  const pushed = bundle.warnings!.map((text) => text.replace(/^wrangler\.jsonc: /, ''));
  assert.deepEqual(warnings!.sort(), pushed.sort());
  assert.equal(pushed.length, 4);
});
