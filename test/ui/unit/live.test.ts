// Live lists: the newest rows, streams that resume, and polling.
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import type { Result } from '../../../ui/api.ts';
import { live, liveRows, resource } from '../../../ui/live.ts';
import { pages } from '../../../ui/models/pages.ts';
import { eventually } from '../../support/processes.ts';

type Line = Result<'logs.stream'>;

/** Fakes of a page's globals: a document that is shown or hidden, and URLs without an origin. */
const page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
const show = (state: 'visible' | 'hidden') => {
  page.visibilityState = state;
  page.dispatchEvent(new Event('visibilitychange'));
};
const asked: { params: Record<string, unknown> }[] = [];
const server = createServer(async (request, response) => {
  const { params } = JSON.parse(await bodyOf(request));
  asked.push({ params });
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (params.id === 'quiet' || params.id === 'read') {
    response.write(': open\n\n');
    // The first connection breaks before its first event.
    if (asked.filter((call) => call.params.id === params.id).length === 1) response.end();
    return;
  }
  const first = Number(params.last_event_id ?? 0) + 1;
  const data = (id: number) =>
    JSON.stringify({ jsonrpc: '2.0', method: 'logs.stream', params: { id: String(id) } });
  const event = (id: number) => `: a comment\n\nid: ${id}\ndata: ${data(id)}\n\n`;
  response.write(event(first) + event(first + 1));
  // The first connection breaks; later ones stay.
  if (asked.length === 1) response.end();
});

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

const realFetch = globalThis.fetch;
before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  globalThis.fetch = (path, init) => realFetch(`${origin}${path}`, init);
  Object.assign(globalThis, { document: page });
});
after(() => {
  globalThis.fetch = realFetch;
  server.closeAllConnections();
  server.close();
});

test('a live list keeps the newest rows, and counts the dropped ones', () => {
  const { rows, dropped, add, addOlder, replace } = liveRows<number>(5);
  add([4, 5, 6]);
  addOlder([1, 2, 3]);
  assert.deepEqual([rows.value, dropped.value], [[2, 3, 4, 5, 6], 0]);
  add([7, 8]);
  assert.deepEqual([rows.value, dropped.value], [[4, 5, 6, 7, 8], 2]);
  replace([1]);
  assert.deepEqual([rows.value, dropped.value], [[1], 0]);
});

test('a broken stream resumes after the last event, and pauses while the page is hidden', async () => {
  const seen: string[] = [];
  let lost = 0;
  const { promise: four, resolve } = Promise.withResolvers<void>();
  const stop = live(
    'logs.stream',
    { id: 'shop' },
    {
      onItems(items: Line[]) {
        seen.push(...items.map(({ id }) => id));
        if (seen.length === 4) resolve();
      },
      onLost: () => lost++,
    },
  );
  try {
    await four;
    assert.deepEqual(seen, ['1', '2', '3', '4']);
    assert.equal(lost, 1);
    assert.deepEqual(
      asked.map(({ params }) => params.last_event_id),
      [undefined, '2'],
    );
    const closed = new Promise((resolve) => server.once('request', resolve));
    show('hidden');
    show('visible');
    await closed;
  } finally {
    stop();
  }
});

test('a stream that breaks before its first event says that events may be missing', async () => {
  const { promise: reset, resolve } = Promise.withResolvers<number | null>();
  let opened = 0;
  const listener = { onItems: () => {}, onOpen: () => opened++, onReset: resolve };
  const stop = live('logs.stream', { id: 'quiet' }, listener);
  try {
    assert.equal(await reset, null);
    assert.equal(opened, 2);
  } finally {
    stop();
  }
});

test('a list that was read resumes after its newest entry, also when its stream breaks before the first event', async () => {
  const { promise: opened, resolve } = Promise.withResolvers<void>();
  let opens = 0;
  let resets = 0;
  const listener = {
    onItems: () => {},
    onOpen: () => ++opens === 2 && resolve(),
    onReset: () => resets++,
  };
  const before = asked.length;
  const stop = live('logs.stream', { id: 'read', last_event_id: '5' }, listener);
  try {
    await opened;
    assert.equal(resets, 0);
    assert.deepEqual(
      asked.slice(before).map(({ params }) => params.last_event_id),
      ['5', '5'],
    );
  } finally {
    stop();
  }
});

test('the last result stays when a reload fails', async () => {
  let answers = [async () => 1, async () => Promise.reject(new Error('no answer'))];
  const read = resource(() => answers.shift()!());
  const { promise, resolve } = Promise.withResolvers<void>();
  read.data.subscribe((data) => data !== null && resolve());
  await promise;
  await read.refresh();
  assert.deepEqual([read.data.value, read.failure.value?.message], [1, 'no answer']);
  answers = [async () => 2];
  await read.refresh();
  assert.deepEqual([read.data.value, read.failure.value], [2, null]);
  read.close();
});

test('a page without input for half a minute polls six times less often', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let reads = 0;
  const own = resource(async () => ++reads, { everyMs: 1_000 });
  t.after(own.close);
  const after = async (ms: number) => {
    t.mock.timers.tick(ms);
    await new Promise(setImmediate);
    return reads;
  };
  assert.equal(await after(0), 1);
  assert.equal(await after(1_000), 2);
  const now = performance.now();
  t.mock.method(performance, 'now', () => now + 61_000);
  assert.equal(await after(1_000), 3);
  assert.equal(await after(5_000), 3);
  assert.equal(await after(1_000), 4);
});

test('a list keeps its further pages when the first is reloaded', async () => {
  const rows = Array.from({ length: 5 }, (_, i) => 5 - i);
  const list = pages<number>(
    async (cursor) => {
      const from = Number(cursor ?? 0);
      const next = from + 2 < rows.length ? String(from + 2) : null;
      return { items: rows.slice(from, from + 2), next_cursor: next };
    },
    String,
    { grows: true },
  );
  await list.refresh();
  await list.more();
  assert.deepEqual(list.items.value, [5, 4, 3, 2]);
  rows.unshift(6);
  await list.refresh();
  assert.deepEqual(list.items.value, [6, 5, 4, 3, 2]);
  // The next page follows without duplicates, although rows were added.
  await list.more();
  assert.deepEqual(list.items.value, [6, 5, 4, 3, 2, 1]);
  assert.equal(list.hasMore.value, false);
  list.close();
});

test('a growing list starts anew when more than a page was added, and is bounded', async () => {
  let newest = 3;
  const list = pages<number>(
    async (cursor) => {
      const from = Number(cursor ?? newest);
      const items = Array.from({ length: 1_000 }, (_, i) => from - i).filter((row) => row > -9_000);
      return { items, next_cursor: String(from - 1_000) };
    },
    String,
    { grows: true },
  );
  await list.refresh();
  await list.more();
  newest = 5_000;
  await list.refresh();
  assert.deepEqual([list.items.value[0], list.items.value.length], [5_000, 1_000]);
  await list.more();
  assert.deepEqual([list.items.value.at(-1), list.hasMore.value], [3_001, false]);
  newest = 5_001;
  await list.refresh();
  assert.deepEqual([list.items.value[0], list.items.value.at(-1)], [5_001, 3_002]);
  list.set([5_002, ...list.items.value]);
  assert.deepEqual([list.items.value[0], list.items.value.at(-1)], [5_002, 3_003]);
  list.close();
});

test('a further page is added to the newest data, and dropped when its cursor is old', async () => {
  const further: PromiseWithResolvers<{ items: string[]; next_cursor: null }>[] = [];
  let state = 'building';
  let next = 'two';
  const list = pages<{ id: string; state: string }>(
    async (cursor) => {
      if (cursor === undefined) return { items: [{ id: 'a', state }], next_cursor: next };
      const answer = Promise.withResolvers<{ items: string[]; next_cursor: null }>();
      further.push(answer);
      const { items, next_cursor } = await answer.promise;
      return { items: items.map((id) => ({ id, state: 'old' })), next_cursor };
    },
    ({ id }) => id,
  );
  const shown = () => list.items.value.map(({ id, state }) => `${id} ${state}`);
  await list.refresh();
  const first = list.more();
  state = 'live';
  await list.refresh();
  further[0]!.resolve({ items: ['b'], next_cursor: null });
  await first;
  assert.deepEqual(shown(), ['a live', 'b old']);
  await list.refresh();
  const second = list.more();
  next = 'three';
  await list.refresh();
  further[1]!.resolve({ items: ['b'], next_cursor: null });
  await second;
  assert.deepEqual([shown(), list.hasMore.value], [['a live'], true]);
  list.close();
});

test('a removed item stays away while the list is read again', async () => {
  const answers: PromiseWithResolvers<string[]>[] = [];
  const list = pages<string>(
    async () => {
      const answer = Promise.withResolvers<string[]>();
      answers.push(answer);
      return { items: await answer.promise, next_cursor: null };
    },
    (item) => item,
  );
  answers[0]!.resolve(['a', 'b', 'c']);
  await eventually(() => list.items.value.length === 3, 'the list is read');
  list.hide('a');
  list.hide('b');
  list.drop('a');
  // The second removal ends during the read that follows the first one, and aborts this read.
  list.drop('b');
  answers[1]!.resolve(['b', 'c']);
  await answers[1]!.promise;
  assert.deepEqual(list.items.value, ['c']);
  answers[2]!.resolve(['c', 'b']);
  await eventually(() => list.items.value.length === 2, 'an item that was made again is shown');
  list.close();
});
