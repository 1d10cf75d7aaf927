// The log of an app: it is read again after a failure, and shows the lines of one filter.
import assert from 'node:assert/strict';
import { beforeEach, type TestContext, test } from 'node:test';
import { logsModel } from '../../../ui/models/telemetry/logs.ts';
import { setQuery } from '../../../ui/router.ts';

type Asked = Record<'id' | 'search' | 'preview' | 'cursor', string | undefined>;

beforeEach(() => {
  // Fakes of a page's globals: a visible document, and a location.
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  const history = {
    replaceState(_: unknown, __: string, path: string) {
      Object.assign(globalThis, { location: new URL(path, 'http://localhost') });
    },
  };
  Object.assign(globalThis, { document, history });
  setQuery({ q: '', preview: '' });
});

/** Opens the log of an app, whose pages `read` returns. `reset` sends the event `reset` on the open stream. */
async function openLog(t: TestContext, read: (asked: Asked) => object | Promise<object>) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const reads: Asked[] = [];
  let reset!: () => void;
  t.mock.method(globalThis, 'fetch', async (_: string, init: RequestInit) => {
    const { method, params } = JSON.parse(String(init.body));
    if (method === 'logs.list') {
      reads.push(params);
      return Response.json(await read(params));
    }
    const body = new ReadableStream({
      start(controller) {
        const send = (text: string) => controller.enqueue(new TextEncoder().encode(text));
        reset = () => send('event: reset\ndata: {}\n\n');
        send(': open\n\n');
      },
    });
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  });
  const model = logsModel('shop');
  t.after(model.close);
  t.mock.timers.tick(0);
  await until(() => model.isLive.value, 'the log is live');
  return { model, reads, reset: () => reset() };
}

async function until(holds: () => boolean, what: string) {
  for (let turns = 0; !holds(); turns++) {
    assert.ok(turns < 1_000, what);
    await new Promise(setImmediate);
  }
}

const line = (id: string) => ({ id, text: id, level: 'info', fields: null, trace_id: null });
const page = (ids: string[], next_cursor: string | null = null) => ({
  result: { items: ids.map(line), next_cursor },
});
const fault = (status: number, code: string) => ({ error: { data: { status, code, detail: code } } });

test('the log is read again after a failure, unless the API refuses it', async (t) => {
  let answer: object = page(['1']);
  const { model, reads, reset } = await openLog(t, () => answer);
  for (const [status, code] of [
    [503, 'app_unavailable'],
    [429, 'rate_limited'],
  ] as const) {
    answer = fault(status, code);
    reset();
    await until(() => model.failure.value !== null, 'the read fails');
    assert.equal(model.isLive.value, false);
    answer = page(['2', '1']);
    t.mock.timers.tick(1_250);
    await until(() => model.isLive.value, 'the log is live again');
    assert.equal(model.failure.value, null);
    assert.deepEqual(
      model.shown.value.map(({ id }) => id),
      ['1', '2'],
    );
  }
  answer = fault(403, 'forbidden');
  reset();
  await until(() => model.failure.value !== null, 'the read is refused');
  const before = reads.length;
  t.mock.timers.tick(60_000);
  assert.deepEqual([model.isLive.value, reads.length], [false, before]);
});

test('a failed read is not repeated for a filter that was replaced', async (t) => {
  t.mock.method(Math, 'random', () => 0);
  let answer: object = page(['1']);
  const { model, reads, reset } = await openLog(t, () => answer);
  answer = fault(503, 'app_unavailable');
  reset();
  await until(() => model.failure.value !== null, 'the read fails');
  const before = reads.length;
  t.mock.timers.tick(740);
  setQuery({ q: 'new' });
  answer = page(['2']);
  t.mock.timers.tick(60_000);
  await until(() => model.isLive.value, 'the log is live again');
  assert.deepEqual(
    reads.slice(before).map(({ search }) => search),
    ['new'],
  );
});

test('older lines of another preview are not added', async (t) => {
  const older = Promise.withResolvers<object>();
  const { model, reads } = await openLog(t, ({ cursor, preview }) =>
    cursor !== undefined ? older.promise : page(preview ? ['9'] : ['2'], preview ?? 'app'),
  );
  setQuery({ preview: 'blue' });
  const reading = model.readOlder();
  assert.deepEqual([reads.at(-1)!.preview, reads.at(-1)!.cursor], [undefined, 'app']);
  t.mock.timers.tick(350);
  await until(() => model.shown.value.length > 0, 'the preview is read');
  older.resolve(page(['1']));
  await reading;
  assert.deepEqual(
    model.shown.value.map(({ id }) => id),
    ['9'],
  );
  assert.equal(model.hasOlder.value, true);
});
