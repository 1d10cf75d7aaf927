// The real Wrangler deploys to a real Cellar, and reads and changes stored data of its apps.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Cellar, type Printed } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';
import { EVERYTHING } from '../support/wrangler/everything.ts';
import { Project } from '../support/wrangler/wrangler.ts';

const cellar = new Cellar({ RUNNER_MAX_APPS_PER_USER: '30' });
let everything: Project;
before(async () => {
  await cellar.start();
  everything = new Project(cellar, EVERYTHING);
});
after(() => cellar[Symbol.asyncDispose]());

const CONFIG = (name: string, more = '') => `name = "${name}"
main = "index.js"
compatibility_date = "2026-10-01"
${more}`;
const worker = (text: string) => `export default { fetch: () => new Response('${text}') };\n`;

test('whoami names the account of the key', async () => {
  const project = new Project(cellar, {});
  const { code, stdout, stderr } = await project.wrangler('whoami');
  assert.equal(code, 0, stdout + stderr);
  const { owner } = await cellar.app(await cellar.create('owned'));
  assert.match(stdout, new RegExp(owner));
  const stranger = await project.run(['whoami'], { token: 'cellar_wrong' });
  assert.equal(stranger.code, 1);
  assert.match(stranger.stdout + stranger.stderr, /bearer token is wrong|Unable to/i);
});

test('a one-file Worker makes its app, answers, and is a release like any other', async () => {
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('first'), 'index.js': worker('one') });
  const first = await project.wrangler('deploy');
  assert.equal(first.code, 0, first.stdout + first.stderr);
  assert.match(first.stdout, /first\.localhost/);
  assert.equal((await cellar.get('first')).text, 'one');

  project.write({ 'index.js': worker('two') });
  const second = await project.wrangler('deploy', '--message', 'the second');
  assert.equal(second.code, 0, second.stdout + second.stderr);
  assert.equal((await cellar.get('first')).text, 'two');

  const { items } = (await cellar.call('GET', '/v1/apps/first/deploys')).body;
  assert.deepEqual(
    items.map(({ trigger, status, message }: Record<string, string>) => [trigger, status, message]),
    [
      ['upload', 'live', 'the second'],
      ['upload', 'replaced', ''],
    ],
  );
  const back = await cellar.call('POST', '/v1/apps/first/rollback', { deploy_id: items[1].id });
  assert.equal(back.status, 202);
});

test('a Worker that throws while loading is refused with the place in the source, and the old one keeps serving', async () => {
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('thrower'), 'index.js': worker('good') });
  assert.equal((await project.wrangler('deploy')).code, 0);
  project.write({ 'index.js': `\nthrow new Error('no cake');\n${worker('bad')}` });
  const { code, stdout, stderr } = await project.wrangler('deploy');
  assert.equal(code, 1);
  assert.match(stdout + stderr, /Deploy \w+ failed: Uncaught Error: no cake at index\.js:2:/);
  project.write({ 'index.js': 'export default { featch() {} };' });
  const useless = await project.wrangler('deploy');
  assert.match(useless.stdout + useless.stderr, /failed: index\.js: the default export has no handler/);
  assert.equal((await cellar.get('thrower')).text, 'good');
});

test('a dry run makes no app, and a version shows its author, variables and secrets', async () => {
  const project = new Project(cellar, {
    'wrangler.toml': CONFIG('told'),
    'index.js': worker('told'),
    'secrets.json': '{"KEY":"s3cret"}',
  });
  const dry = await project.wrangler('deploy', '--dry-run', '--var', 'COLOUR:blue');
  assert.equal(dry.code, 0, dry.stdout + dry.stderr);
  assert.match(dry.stdout, /env\.COLOUR/);
  assert.equal((await cellar.call('GET', '/v1/apps/told')).status, 404);

  const deploy = ['deploy', '--var', 'COLOUR:blue', '--secrets-file', 'secrets.json'];
  assert.equal((await project.wrangler(...deploy)).code, 0);
  const listed = await project.wrangler('deployments', 'list', '--json');
  const [{ versions }] = JSON.parse(listed.stdout);
  const version = versions[0].version_id;
  const { stdout } = await project.wrangler('versions', 'view', version);
  assert.match(stdout, /Author: +owner/);
  assert.match(stdout, /env\.COLOUR \("blue"\)/);
  const halves = await project.wrangler('versions', 'deploy', `${version}@50%`, '--yes');
  assert.equal(halves.code, 1);
  const secret = await project.wrangler('versions', 'secret', 'put', 'KEY');
  assert.match(
    secret.stdout + secret.stderr,
    /a secret belongs to the app, not to one version: use `wrangler secret`/,
  );

  // The secrets of the app are those of each version. A caller who may only view sees none.
  for (const more of [[], ['--latest-version']]) {
    const { stdout, stderr } = await project.wrangler('versions', 'secret', 'list', ...more);
    assert.ok(
      stdout.includes(`-- Version ${version} (100%) secrets --\nSecret Name: KEY\n`),
      stdout + stderr,
    );
  }
  const rpc = rpcOf(cellar);
  const { id: account } = await rpc('accounts.create', { name: 'Guest', email: 'guest@example.com' });
  const { key: token } = await rpc('keys.create', { account });
  await rpc('collaborators.set', { id: (await cellar.app('told')).id, account, role: 'view' });
  const guest = { token, environment: { CLOUDFLARE_ACCOUNT_ID: account } };
  const viewed = await project.run(['versions', 'secret', 'list', '--latest-version'], guest);
  assert.ok(viewed.stdout.includes(`-- Version ${version} (100%) secrets --`), viewed.stdout + viewed.stderr);
  assert.doesNotMatch(viewed.stdout, /KEY/);
});

test('versions keep their ids, tags and messages, through changes of crons and rollbacks', async () => {
  const config = `${CONFIG('tagged', '[version_metadata]\nbinding = "V"\n')}[triggers]\ncrons = ["0 3 * * *"]\n`;
  const project = new Project(cellar, {
    'wrangler.toml': config,
    'index.js': 'export default { fetch: (_, { V }) => Response.json(V), scheduled() {} };',
  });
  const seen = async () => JSON.parse((await cellar.get('tagged')).text);
  const deployed = async (...words: string[]) => {
    const { code, stdout, stderr } = await project.wrangler(...words);
    assert.equal(code, 0, stdout + stderr);
    return /Version ID: (\S+)/.exec(stdout)?.[1];
  };
  interface Shown {
    id: string;
    annotations: Record<string, string>;
    versions: { version_id: string }[];
  }
  const json = async (...words: string[]): Promise<Shown[]> =>
    JSON.parse((await project.wrangler(...words, '--json')).stdout);
  const notes = ({ id, annotations }: Shown) => [
    id,
    annotations['workers/tag'],
    annotations['workers/message'],
  ];

  // The first deploy is followed by a change of crons, which counts as a deploy in Cellar.
  const first = await deployed('deploy', '--tag', 'v1', '--message', 'the first');
  const one = await seen();
  assert.deepEqual([one.id, one.tag], [first, 'v1']);
  const second = await deployed('deploy', '--tag', 'v2', '--message', 'the second');
  assert.deepEqual([(await seen()).id, (await seen()).tag], [second, 'v2']);
  const third = await deployed('versions', 'upload', '--tag', 'v3', '--message', 'the third');
  const versions = [
    [first, 'v1', 'the first'],
    [second, 'v2', 'the second'],
    [third, 'v3', 'the third'],
  ];
  assert.deepEqual((await json('versions', 'list')).map(notes), versions);

  await deployed('versions', 'deploy', `${third}@100%`, '--yes', '--message', 'at last');
  assert.deepEqual([(await seen()).id, (await seen()).tag], [third, 'v3']);
  await deployed('rollback', first!, '--yes', '--message', 'back');
  assert.deepEqual(await seen(), one);
  assert.deepEqual((await json('versions', 'list')).map(notes), versions);
  const deployments = await json('deployments', 'list');
  const ids = deployments.map(({ versions: [version] }) => version!.version_id);
  assert.deepEqual(ids, [first, second, third, first]);
  const { stdout } = await project.wrangler('versions', 'view', third!);
  assert.match(stdout, /Tag: +v3\nMessage: +the third/);
  const listed = await project.wrangler('deployments', 'list');
  assert.match(listed.stdout, /Message: +at last\nVersion\(s\):[\s\S]*Tag: +v3\n +Message: +the third/);

  // A deploy that is followed by a change of crons is still one deployment, so a rollback goes to the version before it.
  project.write({ 'wrangler.toml': config.replace('0 3', '0 4') });
  await deployed('deploy', '--tag', 'v4');
  await deployed('rollback', '--yes');
  assert.deepEqual(await seen(), one);
});

test('apps with a bucket and a database of the same names deploy, each with its own', async () => {
  const project = (name: string, more: string) =>
    new Project(cellar, {
      'wrangler.toml': CONFIG(name, `r2_buckets = [{ binding = "FILES", bucket_name = "shared" }]\n${more}`),
      'index.js': worker(name),
    });
  const database = 'd1_databases = [{ binding = "DB", database_name = "shared" }]';
  const [one, two, three] = [project('one', database), project('two', database), project('three', '')];
  // The third asks for a bucket that two apps have. The first asks again for its database, which two apps have by then.
  for (const each of [one, two, three, one]) {
    const { code, stdout, stderr } = await each.wrangler('deploy');
    assert.equal(code, 0, stdout + stderr);
  }
  assert.equal((await cellar.get('three')).text, 'three');
  const sql = ['--remote', '--command', 'SELECT 1'];
  const unclear = await three.wrangler('d1', 'execute', 'shared', ...sql);
  assert.match(unclear.stdout + unclear.stderr, /use one of these names instead: one--shared, two--shared/);
});

test('a push and a deploy find the same storage for bindings without ids, whichever comes first', async () => {
  const files = (name: string) => ({
    'wrangler.toml': CONFIG(
      name,
      'd1_databases = [{ binding = "DB" }]\nkv_namespaces = [{ binding = "KV" }]\nr2_buckets = [{ binding = "FILES" }]',
    ),
    'index.js': `export default {
      async fetch({ method }, { DB, KV, FILES }) {
        await DB.exec('CREATE TABLE IF NOT EXISTS notes (text TEXT)');
        if (method === 'POST') {
          await DB.exec("INSERT INTO notes VALUES ('x')");
          await Promise.all([KV.put('a', 'x'), FILES.put('a', 'x')]);
        }
        const { results } = await DB.prepare('SELECT * FROM notes').all();
        return Response.json([results.length, await KV.get('a'), (await FILES.head('a'))?.size]);
      },
    };`,
  });
  for (const name of ['deployed', 'pushed']) {
    const project = new Project(cellar, files(name));
    const deploy = async () => {
      const { code, stdout, stderr } = await project.wrangler('deploy');
      assert.equal(code, 0, stdout + stderr);
    };
    // Wrangler writes the ids into its configuration. The push comes from another checkout, which has none.
    const push = () => cellar.deployAgain(name, 'hello', files(name));
    if (name === 'deployed') await deploy();
    else await cellar.deploy(name, 'hello', files(name));
    await cellar.get(name, '/', { method: 'POST' });
    await (name === 'deployed' ? push() : deploy());
    assert.equal((await cellar.get(name)).text, '[1,"x",1]', name);
    await (name === 'deployed' ? deploy() : push());
    assert.equal((await cellar.get(name)).text, '[1,"x",1]', name);
  }
});

test('secrets set together are one change: all or none, empty ones too, with one restart', async () => {
  const code = `let id;
export default { fetch: (_, { A, EMPTY, LAST }) => Response.json({ id: (id ??= crypto.randomUUID()), A, EMPTY, LAST }) };`;
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('bulk'), 'index.js': code });
  assert.equal((await project.wrangler('deploy')).code, 0);
  const seen = async () => JSON.parse((await cellar.get('bulk')).text);
  const bulk = (secrets: object) => {
    project.write({ 'secrets.json': JSON.stringify(secrets) });
    return project.wrangler('secret', 'bulk', 'secrets.json');
  };

  const { id } = await seen();
  const refused = await bulk({ A: 'kept out', 'not a name': 'value', LAST: '26' });
  assert.match(refused.stdout + refused.stderr, /secrets\.not a name: must be a JavaScript identifier/);
  assert.deepEqual(await seen(), { id });

  const processes = new Set([id]);
  const setting = bulk({ A: '1', EMPTY: '', LAST: '26' });
  const isSet = setting.then(() => true);
  while (!(await Promise.race([isSet, seen().then(({ id }) => void processes.add(id))])));
  assert.equal((await setting).code, 0, (await setting).stdout + (await setting).stderr);
  const after = await seen();
  assert.deepEqual({ ...after, id: '' }, { id: '', A: '1', EMPTY: '', LAST: '26' });
  assert.deepEqual([...processes.add(after.id)], [id, after.id]);

  await bulk({ A: null, EMPTY: null, LAST: '27', MISSING: null });
  assert.deepEqual({ ...(await seen()), id: '' }, { id: '', LAST: '27' });
});

test('a tail shows exceptions, and values as they were printed', async () => {
  const code = `export default { fetch(request, env, context) {
    const { pathname } = new URL(request.url);
    if (pathname === '/500') return new Response('', { status: 500 });
    if (pathname === '/later') { context.waitUntil(Promise.reject(new RangeError('late'))); return new Response(''); }
    if (pathname === '/text') throw 'a text';
    const circle = {};
    circle.circle = circle;
    console.log('100%', { a: 1, b: undefined }, 5, null, undefined, new TypeError('printed'), [1], new Map(), 10n, circle);
    console.error(new Error('printed alone'));
    console.log('%s is', { large: 'x'.repeat(5000) });
    throw new TypeError('thrown');
  } };`;
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('thrown'), 'index.js': code });
  assert.equal((await project.wrangler('deploy')).code, 0);
  const tail = project.start('tail', '--format', 'json');
  interface Event {
    outcome: string;
    event: { request?: { url: string } };
    exceptions: { name: string; message: string; stack?: string; timestamp: number }[];
    logs: { level: string; message: unknown[] }[];
  }
  const events = () =>
    tail
      .printed()
      .split(/^(?=\{$)/m)
      .flatMap((text) => {
        try {
          return [JSON.parse(text) as Event];
        } catch {
          return [];
        }
      });
  const found = (path: string) => events().find(({ event }) => event.request?.url.endsWith(path));
  try {
    await eventually(async () => {
      await cellar.get('thrown', '/first');
      return found('/first') !== undefined;
    }, 'the tail is connected');
    for (const path of ['/thrown', '/500', '/later', '/text']) await cellar.get('thrown', path);
    await eventually(() => found('/text') !== undefined, 'the last request is shown');
    const thrown = found('/thrown')!;
    assert.equal(thrown.outcome, 'exception');
    assert.deepEqual(
      thrown.exceptions.map(({ name, message }) => [name, message]),
      [['TypeError', 'thrown']],
    );
    assert.match(thrown.exceptions[0]!.stack!, /^ {4}at .*index\.js:11:11/);
    assert.equal(typeof thrown.exceptions[0]!.timestamp, 'number');
    const values = ['100%', { a: 1 }, 5, null, null, 'TypeError: printed', [1], '[object Map]', '10', {}];
    assert.deepEqual(
      thrown.logs.slice(0, 2).map(({ level, message }) => [level, message]),
      [
        ['log', values],
        ['error', ['Error: printed alone']],
      ],
    );
    assert.deepEqual(
      thrown.logs[2]!.message.map((value) => typeof value),
      ['string'],
    );
    const rest = ['/500', '/later', '/text'].map(found).map((event) => [event!.outcome, event!.exceptions]);
    const bare = rest.map(([outcome, exceptions]) => [
      outcome,
      ...(exceptions as Event['exceptions']).map(({ name, message }) => `${name}: ${message}`),
    ]);
    assert.deepEqual(bare, [['ok'], ['ok', 'RangeError: late'], ['exception', 'Error: a text']]);
  } finally {
    await tail.end();
  }
});

test('a tail shows requests with their lines of the log, filtered', async () => {
  const project = new Project(cellar, {
    'wrangler.toml': CONFIG('talker'),
    'index.js': `export default { fetch(request) { console.log('asked for', new URL(request.url).pathname); return new Response('heard'); } };`,
  });
  assert.equal((await project.wrangler('deploy')).code, 0);
  const tail = project.start('tail', '--format', 'pretty', '--search', 'asked for /b');
  try {
    await eventually(() => /Connected to talker/.test(tail.printed()), 'the tail is connected');
    await eventually(async () => {
      await cellar.get('talker', '/a');
      await cellar.get('talker', '/b');
      return /\(log\) asked for \/b/.test(tail.printed());
    }, 'the line is shown');
    assert.match(tail.printed(), /GET http:\/\/talker\.localhost:\d+\/b - Ok @/);
    assert.doesNotMatch(tail.printed(), /\/a/);
  } finally {
    await tail.end();
  }
  const posted = project.start('tail', '--format', 'json', '--method', 'POST', '--status', 'ok');
  try {
    await eventually(async () => {
      await cellar.get('talker', '/a');
      await cellar.get('talker', '/b', { method: 'POST' });
      return /"asked for",\s+"\/b"[\s\S]*"status": 200/.test(posted.printed());
    }, 'the request is shown');
    assert.doesNotMatch(posted.printed(), /\/a/);
  } finally {
    await posted.end();
  }
  const refused = await project.wrangler('tail', '--header', 'x-a:1');
  assert.equal(refused.code, 1);
  assert.match(refused.stdout + refused.stderr, /--search, --status, --method, --version-id/);
});

test('versions upload prints the address of a preview, on storage of its own, which versions deploy promotes', async () => {
  const kv = '[[kv_namespaces]]\nbinding = "KV"\nid = "notes"';
  const keeper = (text: string) => `export default {
    async fetch(request, env) {
      const n = Number((await env.KV.get('n')) ?? 0) + 1;
      await env.KV.put('n', String(n));
      return new Response('${text} ' + n);
    },
  };`;
  const project = new Project(cellar, { 'wrangler.toml': CONFIG('staged', kv), 'index.js': keeper('one') });
  assert.equal((await project.wrangler('deploy')).code, 0);
  assert.equal((await cellar.get('staged')).text, 'one 1');
  project.write({ 'index.js': keeper('two') });
  const { code, stdout, stderr } = await project.wrangler('versions', 'upload', '--preview-alias', 'staging');
  assert.equal(code, 0, stdout + stderr);
  const version = /Worker Version ID: (\S+)/.exec(stdout)![1]!;
  const port = `localhost:${cellar.edgePort}`;
  assert.ok(stdout.includes(`Version Preview URL: https://${version.slice(0, 8)}--staged.${port}`), stdout);
  assert.ok(stdout.includes(`Version Preview Alias URL: https://staging--staged.${port}`), stdout);
  assert.equal((await cellar.get('staging--staged')).text, 'two 1');
  assert.equal((await cellar.get(`${version.slice(0, 8)}--staged`)).text, 'two 2');
  assert.equal((await cellar.get('staged')).text, 'one 2');

  // The alias keeps its storage. A version that does not start is refused, and changes nothing.
  project.write({ 'index.js': keeper('three') });
  const third = await project.wrangler('versions', 'upload', '--preview-alias', 'staging');
  assert.equal(third.code, 0, third.stdout + third.stderr);
  assert.equal((await cellar.get('staging--staged')).text, 'three 3');
  project.write({ 'index.js': `throw new Error('no cake'); ${keeper('four')}` });
  const broken = await project.wrangler('versions', 'upload');
  assert.equal(broken.code, 1);
  assert.match(broken.stdout + broken.stderr, /no cake/);
  project.write({ 'index.js': keeper('five') });
  const odd = await project.wrangler('versions', 'upload', '--preview-alias', 'a');
  assert.match(odd.stdout + odd.stderr, /preview alias/);

  const promoted = await project.wrangler('versions', 'deploy', `${version}@100`, '--yes');
  assert.equal(promoted.code, 0, promoted.stdout + promoted.stderr);
  assert.equal((await cellar.get('staged')).text, 'two 3');
  assert.equal((await cellar.get('staging--staged')).text, 'three 4');
});

/** Runs Wrangler in the project with everything that Cellar runs, and asserts that it succeeds. */
async function wrangler(...words: string[]): Promise<string> {
  const { code, stdout, stderr }: Printed = await everything.wrangler(...words);
  assert.equal(code, 0, `wrangler ${words.join(' ')}:\n${stdout}${stderr}`);
  return stdout;
}

const all = async () => JSON.parse((await cellar.get('everything', '/all')).text);
const app = async () => cellar.call('GET', '/v1/apps/everything');

test('every binding, assets, a migration of classes, a cron and a queue arrive; only new assets are sent again', async () => {
  await wrangler('deploy', '--var', 'EXTRA:more');
  assert.deepEqual(await all(), {
    words: 'words of a module',
    greeting: 'hello',
    extra: 'more',
    list: [1, 2],
    secret: null,
    greeted: 'hi you',
    tables: [],
    count: 1,
    files: [],
  });
  const { items } = (await cellar.call('GET', '/v1/apps/everything/bindings?limit=100')).body;
  assert.deepEqual(
    items.map(({ name, type, target }: Record<string, string>) => `${name} ${type} ${target}`),
    [
      'AI ai null',
      'ASSETS assets null',
      'BROWSER browser null',
      'COUNTER durable_object_namespace Counter',
      'DB d1 notes-id',
      'DISPATCHER dispatch_namespace customers',
      'EVENTS pipelines events',
      'FILES r2_bucket files',
      'IMAGES images null',
      'KV kv_namespace words',
      'LIMIT ratelimit 0 in 60 s',
      'LOADER worker_loader null',
      'MAIL send_email null',
      'POINTS analytics_engine points',
      'QUEUE queue jobs',
      'SELF service everything, Greeter',
      'SQL hyperdrive sql',
      'STORED secrets_store_secret key',
      'VECTORS vectorize pages',
      'VERSION version_metadata null',
      'jobs queue_consumer null',
    ],
  );
  assert.match((await cellar.get('everything', '/')).text, /everything/);
  assert.match((await cellar.get('everything', '/a%20b/%C3%BC.txt')).text, /odd name/);
  assert.equal((await cellar.get('everything', '/limit')).text, '{"success":false}');
  assert.equal((await cellar.get('everything', '/load')).text, 'loaded');
  assert.deepEqual((await cellar.get('everything', '/none')).status, 404);

  everything.write({ 'public/new.txt': 'new', 'secrets.json': '{"SECRET":"s3cret"}' });
  const again = await wrangler('deploy', '--keep-vars', '--secrets-file', 'secrets.json');
  assert.match(again, /Uploaded 1 file \(3 already uploaded\)/);
  const { extra, secret, count } = await all();
  assert.deepEqual({ extra, secret, count }, { extra: 'more', secret: 's3cret', count: 2 });
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'new');
  assert.equal((await app()).body.status, 'running');
});

test('a version waits until it is deployed, and a rollback removes it again', async () => {
  everything.write({ 'public/new.txt': 'newer' });
  const uploaded = await wrangler('versions', 'upload', '--message', 'waits', '--tag', 'v7');
  const id = /Worker Version ID: (\S+)/.exec(uploaded)?.[1];
  assert.ok(id, uploaded);
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'new');
  await wrangler('versions', 'deploy', `${id}@100%`, '--yes');
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'newer');
  const version = JSON.parse((await cellar.get('everything', '/version')).text);
  assert.deepEqual([version.id, version.tag], [id, 'v7']);
  assert.match(await wrangler('deployments', 'status'), new RegExp(id));
  assert.match(await wrangler('versions', 'view', id), /env\.LOADER +Worker Loader/);
  await wrangler('rollback', '--yes', '--message', 'back');
  assert.equal((await cellar.get('everything', '/new.txt')).text, 'new');
});

test('a database is migrated, queried, filled from a file and exported', async () => {
  await wrangler('d1', 'migrations', 'apply', 'notes', '--remote');
  const sql = "SELECT * FROM notes; INSERT INTO notes VALUES ('second')";
  const queried = JSON.parse(
    await wrangler('d1', 'execute', 'notes', '--remote', '--json', '--command', sql),
  );
  assert.deepEqual(queried[0].results, [{ text: 'first; of all' }]);
  assert.equal(queried[1].meta.changes, 1);
  const numbers = 'SELECT 9007199254740993 AS large, 9e999 AS infinite, 1.5 AS small';
  const [{ results }] = JSON.parse(
    await wrangler('d1', 'execute', 'notes', '--remote', '--json', '--command', numbers),
  );
  // As on Cloudflare, where numbers are those of JavaScript.
  assert.deepEqual(results, [{ large: 2 ** 53, infinite: null, small: 1.5 }]);
  everything.write({
    'more.sql': "INSERT INTO notes VALUES ('third');\nINSERT INTO notes VALUES ('fourth');",
  });
  await wrangler('d1', 'execute', 'notes', '--remote', '--yes', '--file', 'more.sql');
  await wrangler('d1', 'export', 'notes', '--remote', '--output', 'out.sql');
  const exported = readFileSync(join(everything.directory, 'out.sql'), 'utf8');
  for (const word of ['first; of all', 'second', 'third', 'fourth']) assert.ok(exported.includes(word), word);
  await wrangler('d1', 'export', 'notes', '--remote', '--no-data', '--output', 'schema.sql');
  const schema = readFileSync(join(everything.directory, 'schema.sql'), 'utf8');
  assert.match(schema, /CREATE TABLE notes \(text TEXT\);/);
  assert.doesNotMatch(schema, /INSERT|second/);
  await wrangler('d1', 'execute', 'notes', '--remote', '--yes', '--command', 'CREATE TABLE "Other" (a)');
  await wrangler('d1', 'export', 'notes', '--remote', '--table', 'other', '--output', 'other.sql');
  const other = readFileSync(join(everything.directory, 'other.sql'), 'utf8');
  assert.match(other, /CREATE TABLE "Other" \(a\);/);
  assert.doesNotMatch(other, /notes/);
});

test('keys, objects, secrets and queues', async () => {
  const remote = ['--namespace-id', 'words', '--remote'];
  await wrangler('kv', 'key', 'put', 'a/key', 'a value', '--metadata', '{"a":1}', ...remote);
  assert.equal((await wrangler('kv', 'key', 'get', 'a/key', ...remote)).trim(), 'a value');
  const keys = JSON.parse(await wrangler('kv', 'key', 'list', ...remote));
  assert.deepEqual(keys, [{ name: 'a/key', metadata: { a: 1 } }, { name: 'from-app' }]);
  const described = {
    contentType: 'text/sql',
    contentLanguage: 'en',
    contentDisposition: 'inline',
    contentEncoding: 'gzip',
    cacheControl: 'max-age=5',
    cacheExpiry: '2027-01-15T08:00:00.000Z',
  };
  await wrangler(
    ...['r2', 'object', 'put', 'files/dir/a.txt', '--file', 'more.sql', '--remote'],
    ...['--content-type', 'text/sql', '--content-language', 'en', '--content-disposition', 'inline'],
    ...['--content-encoding', 'gzip', '--cache-control', 'max-age=5'],
    ...['--expires', 'Fri, 15 Jan 2027 08:00:00 GMT'],
  );
  assert.deepEqual(JSON.parse((await cellar.get('everything', '/described')).text), described);
  assert.match(await wrangler('r2', 'object', 'get', 'files/dir/a.txt', '--pipe', '--remote'), /third/);
  assert.deepEqual((await all()).files, ['dir/a.txt']);
  const info = JSON.parse(await wrangler('r2', 'bucket', 'info', 'files', '--json'));
  assert.deepEqual([info.object_count, info.bucket_size], ['1', '72 B']);
  await wrangler('secret', 'delete', 'SECRET');
  assert.deepEqual(JSON.parse(await wrangler('secret', 'list')), []);
  assert.match(await wrangler('queues', 'info', 'jobs'), /worker:everything/);
});

test('an app is deleted, with a warning for each app that uses it', async () => {
  const uses = `tail_consumers = [{ service = "everything" }]
services = [{ binding = "OTHER", service = "everything" }, { binding = "SELF", service = "user" }]
durable_objects.bindings = [{ name = "THEIRS", class_name = "Counter", script_name = "everything" }]`;
  const user = new Project(cellar, { 'wrangler.toml': CONFIG('user', uses), 'index.js': worker('user') });
  const deployed = await user.wrangler('deploy');
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  assert.deepEqual((await wrangler('delete')).match(/^- .*$/gm), [
    '- Worker user uses this Worker as a Service Binding',
    '- Worker user has a binding to the Durable Object Namespace "Counter" implemented by this Worker',
    '- Worker user uses this Worker as a Tail Worker',
  ]);
  assert.equal((await app()).status, 404);
  const unused = await user.wrangler('delete');
  assert.equal(unused.code, 0, unused.stdout + unused.stderr);
  assert.doesNotMatch(unused.stdout, /in use/);
  assert.equal((await cellar.call('GET', '/v1/apps/user')).status, 404);
});

test('Workers Sites are sent, answer from their own release, and change with the next deploy', async () => {
  const manifest = `import manifest from '__STATIC_CONTENT_MANIFEST';
    export default { async fetch(request, env) {
      const key = JSON.parse(manifest)[new URL(request.url).pathname.slice(1)];
      return new Response(key === undefined ? 'not here' : await env.__STATIC_CONTENT.get(key, 'stream'));
    } };`;
  const project = new Project(cellar, {
    'wrangler.toml': CONFIG('sitely', '[site]\nbucket = "public"\nexclude = ["*.draft"]'),
    'index.js': manifest,
    'public/index.html': '<h1>One</h1>',
    'public/a/page.html': '<h1>A page</h1>',
    'public/a/page.draft': 'a draft',
  });
  const first = await project.wrangler('deploy');
  assert.equal(first.code, 0, first.stdout + first.stderr);
  const body = async (path: string) => (await cellar.get('sitely', path)).text;
  assert.equal(await body('/index.html'), '<h1>One</h1>');
  assert.equal(await body('/a/page.html'), '<h1>A page</h1>');
  assert.equal(await body('/a/page.draft'), 'not here');

  project.write({ 'public/index.html': '<h1>Two</h1>' });
  const second = await project.wrangler('deploy');
  assert.equal(second.code, 0, second.stdout + second.stderr);
  assert.equal(await body('/index.html'), '<h1>Two</h1>');
  assert.equal(await body('/a/page.html'), '<h1>A page</h1>');
  const { items } = (await cellar.call('GET', '/v1/apps/sitely/deploys')).body;
  await cellar.call('POST', '/v1/apps/sitely/rollback', { deploy_id: items[1].id });
  await eventually(async () => (await body('/index.html')) === '<h1>One</h1>', 'the first site is back');
});
