// The browser's reader of the API's event streams.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Streamed, stream } from '../../../ui/api.ts';

/** Answers every `fetch` with an event stream in these chunks. */
function answerWith(t: TestContext, parts: string[]) {
  t.mock.method(globalThis, 'fetch', async () => {
    const body = new Blob(parts).stream();
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  });
}

async function read(): Promise<Streamed<unknown>[][]> {
  const all: Streamed<unknown>[][] = [];
  for await (const events of stream('deploys.stream', { id: 'shop' }, AbortSignal.timeout(5_000)))
    all.push(events);
  return all;
}

test('the reader returns the params of notifications, ignores comments, and reports the beginning once', async (t) => {
  const event = (id: number, params: object) =>
    `id: ${id}\ndata: ${JSON.stringify({ jsonrpc: '2.0', method: 'deploys.stream', params })}\n\n`;
  answerWith(t, [
    ': hello\n\n',
    event(1, { a: 1 }),
    event(2, { a: 2 }),
    ': still here\n\n',
    'event: reset\ndata: {}\n\n',
    'event: skipped\ndata: {"count":7}\n\n',
  ]);
  const [begin, ...rest] = await read();
  assert.deepEqual(begin, []);
  assert.ok(rest.every((events) => events.length > 0));
  assert.deepEqual(rest.flat(), [
    { reset: false, id: '1', data: { a: 1 } },
    { reset: false, id: '2', data: { a: 2 } },
    { reset: true, skipped: null },
    { reset: true, skipped: 7 },
  ]);
});
