// Durable Objects of another app, in two real processes with the host between them: they behave as in Miniflare.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { clusterIn } from '../../support/bucket/clusters.ts';
import { MemoryStore } from '../../support/bucket/memory-store.ts';
import { accessTo } from '../../support/fleets/called-app.ts';
import { call, cellOptions, entry, makeRelease } from '../../support/fleets/release.ts';
import { newMiniflare } from '../../support/miniflare.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const ROOMS = readFileSync('test/apps/rooms/index.js', 'utf8');
const VISITOR = readFileSync('test/apps/visitor/index.js', 'utf8');
const KEY = 'rooms-Room';

interface Bound {
  className?: string;
  storageId?: string;
  /** Owner of the app `rooms`. */
  owner?: string;
  /** Compatibility date of the app `rooms`. */
  date?: string;
  /** Where both apps keep their data; default: on the disk. */
  store?: MemoryStore;
}

/** Starts the app `rooms` and the app `visitor`, which has a binding to the class of `rooms`. */
async function bound(
  t: TestContext,
  { className = 'Room', storageId = KEY, owner = 'o', date = '2026-10-01', store }: Bound = {},
) {
  const root = temporaryDirectory(t);
  const start = async (app: string, release: string, serviceSocket?: string) => {
    const cluster = store === undefined ? null : clusterIn(store, app);
    const around = { cluster: cluster?.settings ?? null, ...(serviceSocket && { serviceSocket }) };
    const options = await cellOptions(`${root}/${app}`, release);
    const files = await new CellFilesCache(`${root}/${app}/run`, 512, around).of(release);
    const { config, sockets } = files;
    const cell = await startCell({
      ...{ ...options, config, sockets, callSockets: { exports: 'health' } },
      ...(cluster && { cluster }),
    });
    t.after(() => cell.stop());
    return { cell, files };
  };
  const rooms = await makeRelease(`${root}/rooms/r`, ROOMS, {
    worker: { ...entry('app.js'), compatibilityDate: date },
    exports: ['Admin', 'Room', 'default'],
    classes: [{ className: 'Room', storageId: KEY, sql: true }],
    durableObjects: [{ binding: 'ROOM', className: 'Room' }],
  });
  const { cell: target } = await start('rooms', rooms.directory);
  const access = accessTo(t, { cell: target, slug: 'rooms', owner }, 'visitor', `${root}/host`);
  const visitor = await makeRelease(`${root}/visitor/r`, VISITOR, {
    exports: ['default', 'ways'],
    objectsElsewhere: [{ binding: 'ROOM', script: 'rooms', className, storageId }],
  });
  const { cell, files } = await start('visitor', visitor.directory, access.socket);
  await access.open(files.calls);
  const get = async (way: string) => {
    const { status, text } = await call(cell.socketPath('http'), `/${way}`);
    assert.equal(status, 200, text);
    return JSON.parse(text);
  };
  return { get, cell, target, access };
}

async function miniflare(t: TestContext) {
  const worker = (name: string, script: string) => ({
    name,
    modules: [{ type: 'ESModule' as const, path: `${name}.js`, contents: script }],
    compatibilityDate: '2026-10-01',
  });
  const instance = newMiniflare({
    workers: [
      {
        ...worker('visitor', VISITOR),
        durableObjects: { ROOM: { className: 'Room', scriptName: 'rooms', useSQLite: true } },
      },
      { ...worker('rooms', ROOMS), durableObjects: { ROOM: { className: 'Room', useSQLite: true } } },
    ],
  });
  t.after(() => instance.dispose());
  const url = await instance.ready;
  return async (way: string) => (await fetch(new URL(`/${way}`, url))).json();
}

const WAYS = [
  'ids',
  'forged',
  'names',
  'add',
  'values',
  'properties',
  'stubs',
  'streams',
  'errors',
  'hidden',
  'fetch',
];

test('each way to use an object gives what it gives in Miniflare', async (t) => {
  const { get } = await bound(t);
  const expected = await miniflare(t);
  for (const way of WAYS) assert.deepEqual([way, await get(way)], [way, await expected(way)]);
});

test('the ids of one app are valid in the other, and there is one object, also at an older date', async (t) => {
  const { get, target } = await bound(t, { date: '2024-05-01' });
  await get('add');
  const here = async (query: string) => (await call(target.socketPath('http'), `/?${query}`)).text;
  const id = await here('name=sum');
  assert.equal(await here(`id=${id}`), '20');
  await get('add');
  assert.equal(await here(`id=${id}`), '40');
  assert.equal((await get('ids')).named, await here('name=kitchen'));
});

test('apps in the bucket use objects of each other, and only the owner of the objects stores them', async (t) => {
  await using store = await new MemoryStore().start();
  const { get } = await bound(t, { store });
  assert.deepEqual(await get('add'), [20, 0]);
  assert.deepEqual(await get('stubs'), [2, 1, [1, 2, 3], 42]);
  const owners = [...store.objects.keys()].filter((name) => name.includes('/v1/do/'));
  assert.ok(owners.length > 0);
  assert.deepEqual(
    owners.filter((name) => name.includes('visitor')),
    [],
  );
});

test('a WebSocket leads to the object, which accepts it for hibernation', async (t) => {
  const { cell } = await bound(t);
  const signal = AbortSignal.timeout(30_000);
  const headers = {
    ...{ connection: 'upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' },
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
  };
  const asked = request({ socketPath: cell.socketPath('http'), path: '/socket', headers, signal }).end();
  const [answer, socket] = (await once(asked, 'upgrade', { signal })) as [IncomingMessage, Socket];
  t.after(() => socket.destroy());
  assert.equal(answer.statusCode, 101);
  // A text frame, masked with zeros.
  socket.write(Buffer.concat([Buffer.from([0x81, 0x85, 0, 0, 0, 0]), Buffer.from('hello')]));
  const [frame] = (await once(socket, 'data', { signal })) as [Buffer];
  assert.equal(frame.subarray(2).toString(), '1: hello');
});

test('an app cannot choose another object, or set what the host sets, by headers', async (t) => {
  const { get, access } = await bound(t);
  assert.deepEqual((await get('headers')).own, []);
  const raw = async (calling: string, object?: string) => {
    const headers = {
      'x-cellar-calling': calling,
      ...(object !== undefined && { 'x-cellar-object': object }),
    };
    const { status, text } = await call(access.socket, '/', { headers });
    return [status, JSON.parse(text).code];
  };
  const id = '0'.repeat(64);
  assert.deepEqual(await raw('fetch 0'), [400, 'object_invalid']);
  for (const object of ['', '{', '[]', '{}', '{"id":"x"}', `{"id":["${id}"]}`, `{"id":"${id}0"}`])
    assert.deepEqual(await raw('fetch 0', object), [400, 'object_invalid'], object);
  assert.deepEqual(await raw('fetch 0', `{"id":"${id}"}`), [404, 'object_not_found']);
  const className = '"className":"Admin","entrypoint":"Admin"';
  assert.deepEqual(await raw('fetch 0', `{"id":"${id}",${className}}`), [404, 'object_not_found']);
  assert.deepEqual(await raw('fetch 1', `{"id":"${id}"}`), [403, 'binding_not_found']);
});

test('an object that passes on the answer of a stranger throws nothing', async (t) => {
  const { get } = await bound(t);
  assert.deepEqual(await get('strange'), ['fine', null]);
});

test('only classes of Durable Objects can be called so', async (t) => {
  for (const className of ['Admin', 'default', 'CellarState', 'CellarCache', 'Nobody', '__proto__']) {
    const { get } = await bound(t, { className });
    const refusal = `The app has no class ${className} of Durable Objects.`;
    assert.deepEqual(await get('add'), `Error: ${refusal}`);
  }
});

test('a class that was made anew, and an app of another owner, are refused with the reason', async (t) => {
  const anew = await bound(t, { storageId: 'before' });
  assert.match(await anew.get('add'), /The id is not of the class Room\. .* deploy the calling app again/);
  const foreign = await bound(t, { owner: 'another' });
  assert.equal(await foreign.get('add'), 'Error: There is no app rooms of the same owner.');
});
