// `cellar move`, with a fake API client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Input } from '../../cli/command.ts';
import { moveCommand } from '../../cli/commands/machine/move.ts';
import { type Client, Session } from '../../cli/session.ts';
import { Refused } from '../../client/index.ts';

const APPS = [
  { slug: 'shop', storage: 'local' },
  { slug: 'there', storage: 'bucket' },
  { slug: 'fixed', storage: 'local' },
  { slug: 'foreign', storage: 'local' },
  { slug: 'blog', storage: 'local' },
];
const PROBLEM = {
  ...{ type: 'about:blank', title: 'Conflict', status: 409, code: 'app_immovable' },
  detail: 'The app cannot be moved: it has facets',
} as ConstructorParameters<typeof Refused>[0];

function sessionOf() {
  const moved: string[] = [];
  const said: string[] = [];
  const call = async (
    name: string,
    params: { id: string; to?: string; host?: string; dry_run?: boolean; dispatch_namespace?: string },
  ) => {
    if (name === 'apps.list')
      return { items: params.dispatch_namespace === undefined ? APPS : [], next_cursor: null };
    assert.equal(name, 'apps.move');
    if (params.id === 'fixed') throw new Refused(PROBLEM);
    if (params.id === 'foreign')
      throw new Refused({ ...PROBLEM, status: 403, code: 'forbidden', detail: 'needs the role admin' });
    const from = APPS.find(({ slug }) => slug === params.id)!.storage;
    if (!params.dry_run) moved.push(`${params.id} to ${params.to ?? params.host}`);
    const counts = { databases: 1, namespaces: 0, objects: 2, r2_objects: 0, previews: 0, bytes: 2048 };
    return { from, to: params.to, moved: !params.dry_run, ...counts };
  };
  const session = new Session({
    place: {
      folder: '/',
      root: '/',
      env: {},
      isTerminal: false,
      out: () => {},
      say: (text) => said.push(text),
      input: async () => '',
      signal: new AbortController().signal,
    },
    json: false,
    app: undefined,
    login: () => ({ url: 'http://cellar', token: 'token', key: null }),
    connect: () => ({ call }) as unknown as Client,
  });
  const run = (input: Input) => moveCommand.run(session, input);
  return { session, run, moved, said };
}

test('cellar move says what it would move, and moves nothing with --dry-run', async () => {
  const { run, session, moved } = sessionOf();
  const line = 'shop: 1 D1 database, 0 KV namespaces, 2 Durable Objects, 0 R2 objects, 2.00 KiB';
  assert.equal(await run({ name: 'shop', to: 'bucket', dryRun: true }), line);
  const question = await moveCommand.destroys!({ name: 'shop', to: 'bucket' }, session);
  assert.equal(question, `${line}\nMove 1 app into the bucket? Requests wait during the move.`);
  assert.deepEqual(moved, []);
});

test('cellar move --all moves every app whose data is not there yet, and says which', async () => {
  const { run, moved, said } = sessionOf();
  assert.equal(await run({ all: true, to: 'bucket' }), '2 apps moved into the bucket.');
  assert.deepEqual(moved, ['shop to bucket', 'blog to bucket']);
  assert.match(
    said.join(''),
    /^fixed stays: [^\n]+facets\nforeign stays: [^\n]+admin\n1 of 2: shop: [^\n]+\n2 of 2: blog: [^\n]+\n$/,
  );
});

test('cellar move needs a place, and does nothing for an app that is there', async () => {
  const { run, moved } = sessionOf();
  await assert.rejects(run({ name: 'shop' }) as Promise<unknown>, /--to bucket, --to local or --host NAME/);
  assert.equal(await run({ name: 'there', to: 'bucket' }), `All data is already there: nothing was moved.`);
  assert.deepEqual(moved, []);
});

test('cellar move --host asks for a move to another machine, of one app and without its data', async () => {
  const { run, session, moved } = sessionOf();
  assert.equal(await run({ name: 'there', host: 'box2', dryRun: true }), 'there can move to box2.');
  assert.deepEqual(moved, []);
  const question = await moveCommand.destroys!({ name: 'there', host: 'box2' }, session);
  assert.equal(question, 'Move there to box2? Requests wait during the move.');
  assert.equal(await run({ name: 'there', host: 'box2' }), 'there runs on box2.');
  assert.deepEqual(moved, ['there to box2']);
  for (const more of [{ all: true }, { to: 'bucket' }])
    await assert.rejects(
      run({ name: 'there', host: 'box2', ...more }) as Promise<unknown>,
      /changes the host of one app/,
    );
});
