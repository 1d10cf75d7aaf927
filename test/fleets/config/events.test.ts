// Which request a Worker's code belongs to while others are under way or after its own was answered. Each case runs in
// workerd.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Started, started } from '../../support/fleets/captured.ts';
import { call, entry } from '../../support/fleets/release.ts';
import { eventually } from '../../support/processes.ts';

/** Each line has the number of the request that its code runs for. */
const HANDLE = `
let released = false;
async function release() { while (!released) await scheduler.wait(2); }
async function handle(request, ctx) {
  const [, kind, number] = new URL(request.url).pathname.split('/');
  const say = (text) => console.log(number + ' ' + text);
  const goOn = async () => { await release(); say('goes on'); };
  say('is asked');
  if (kind === 'waits') { await scheduler.wait(number % 7); say('has waited'); await scheduler.wait(1); say('has waited again'); }
  if (kind === 'release') released = true;
  if (kind === 'released') await goOn();
  if (kind === 'waitUntil') ctx.waitUntil(goOn());
  if (kind === 'ReadableStream') return new Response(new ReadableStream({ async pull(controller) { await goOn(); controller.close(); } }));
  if (kind === 'TransformStream') {
    const { readable, writable } = new TransformStream();
    goOn().then(() => writable.close());
    return new Response(readable);
  }
  if (kind === 'HTMLRewriter') return new HTMLRewriter().on('a', { element: goOn }).transform(new Response('<a>'));
  if (kind === 'WebSocketPair') { const [webSocket, server] = Object.values(new WebSocketPair()); server.accept(); goOn(); return new Response(null, { status: 101, webSocket }); }
  if (kind === 'rejects') Promise.reject(new Error('rejected by ' + number));
  return new Response('fine');
}`;
const FORMS = {
  'an object': `${HANDLE}\nexport default { fetch: (request, env, ctx) => handle(request, ctx) };`,
  'a class': `import { WorkerEntrypoint } from 'cloudflare:workers';${HANDLE}
export default class extends WorkerEntrypoint { fetch(request) { return handle(request, this.ctx); } }`,
};
/** Compatibility dates before and after workerd binds AsyncLocalStorage snapshots to their request. */
const DATES = ['2025-01-01', '2026-10-01'];
/** More requests than the frame pool of `events-worker.js` takes at once. */
const MANY = 40;

interface Asked extends Started {
  /** Requests `/<kind>/<number>` with the trace of that number. */
  ask: (kind: string, number: number) => ReturnType<typeof call>;
}

async function asked(
  t: TestContext,
  code: string,
  compatibilityDate = DATES.at(-1)!,
  edit?: (directory: string) => void,
): Promise<Asked> {
  const worker = { ...entry('app.js'), compatibilityDate };
  const all = await started(t, code, { worker, exports: ['default'] }, edit);
  const ask: Asked['ask'] = (kind, number) =>
    call(all.cell.socketPath('http'), `/${kind}/${number}`, { headers: headersOf(number) });
  return { ...all, ask };
}

function headersOf(number: number): Record<string, string> {
  return { traceparent: `00-${traceOf(number)}-0123456789abcdef-01` };
}

function traceOf(number: number): string {
  return number.toString(16).padStart(32, 'a');
}

function numbers(from: number): number[] {
  return Array.from({ length: MANY }, (_, index) => from + index);
}

function assertOwnTraces({ lines }: Started): void {
  for (const { text, trace } of lines) assert.equal(trace, traceOf(Number.parseInt(text, 10)), text);
}

for (const [form, code] of Object.entries(FORMS))
  for (const date of DATES)
    test(`concurrent requests to ${form} each have their own trace, with the date ${date}`, async (t) => {
      const all = await asked(t, code, date);
      const kindOf = (number: number) => (number % 3 === 0 ? 'plain' : 'waits');
      for (const from of [0, 100])
        await Promise.all(numbers(from).map((number) => all.ask(kindOf(number), number)));
      const printed = [...numbers(0), ...numbers(100)].flatMap((number) =>
        (kindOf(number) === 'plain' ? ['is asked'] : ['is asked', 'has waited', 'has waited again']).map(
          (text) => `${number} ${text}`,
        ),
      );
      await eventually(() => all.lines.length === printed.length, 'all is printed');
      assert.deepEqual(all.lines.map(({ text }) => text).sort(), printed.sort());
      assertOwnTraces(all);
    });

for (const [form, code] of Object.entries(FORMS))
  for (const kind of ['waitUntil', 'ReadableStream', 'TransformStream', 'HTMLRewriter'])
    test(`${kind} work after an answer of ${form} keeps its trace while others are answered`, async (t) => {
      const all = await asked(t, code);
      const answer = all.ask(kind, 1);
      await eventually(() => all.lines.length === 1, 'it is asked');
      for (const number of numbers(100)) await all.ask(number % 2 === 0 ? 'plain' : 'waits', number);
      await all.ask('release', 2);
      await answer;
      await eventually(() => all.lines.some(({ text }) => text === '1 goes on'), 'it goes on');
      assertOwnTraces(all);
    });

test('work beside an open WebSocket keeps its trace while others are answered', async (t) => {
  const all = await asked(t, FORMS['an object']);
  const headers = {
    ...headersOf(1),
    connection: 'upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
  };
  const opening = request({ socketPath: all.cell.socketPath('http'), path: '/WebSocketPair/1', headers });
  opening.end();
  const [, socket] = (await once(opening, 'upgrade')) as [unknown, Socket];
  t.after(() => socket.destroy());
  for (const number of numbers(100)) await all.ask(number % 2 === 0 ? 'plain' : 'waits', number);
  await all.ask('release', 2);
  await eventually(() => all.lines.some(({ text }) => text === '1 goes on'), 'it goes on');
  assertOwnTraces(all);
});

for (const kind of ['ReadableStream', 'waitUntil'])
  test(`work of a request whose tracking timed out is not attributed to another request (${kind})`, async (t) => {
    const giveUpAtOnce = (directory: string) => {
      const path = join(directory, 'cellar-events.js');
      const text = readFileSync(path, 'utf8');
      const edited = text.replace('GIVEN_UP_MS = 600_000', 'GIVEN_UP_MS = -1');
      assert.notEqual(edited, text);
      writeFileSync(path, edited);
    };
    const all = await asked(t, FORMS['an object'], undefined, giveUpAtOnce);
    const answer = all.ask(kind, 1);
    await eventually(() => all.lines.length === 1, 'it is asked');
    // When the work resumes, the last requests are under way. They use frames that the pool took from earlier requests.
    for (const number of numbers(100)) await all.ask('waits', number);
    const last = numbers(200).map((number) => all.ask('released', number));
    await eventually(() => all.lines.length === 1 + 4 * MANY, 'all others are asked');
    await all.ask('release', 2);
    await Promise.all([answer, ...last]);
    const gone = () => all.lines.filter(({ text }) => text.endsWith('goes on'));
    await eventually(() => gone().length === 1 + MANY, 'all go on');
    const known = all.lines.filter(({ trace }) => trace !== undefined);
    assert.ok(known.length >= all.lines.length - 1 - MANY, 'only what was given up has no trace');
    assertOwnTraces({ ...all, lines: known });
  });

test('an unhandled rejection is reported with its request', async (t) => {
  const { ask, reported } = await asked(t, FORMS['an object']);
  for (const number of [1, 2]) {
    await ask('rejects', number);
    const { mechanism, path, trace } = await reported(`rejected by ${number}`);
    assert.deepEqual([mechanism, path, trace], ['unhandledrejection', `/rejects/${number}`, traceOf(number)]);
  }
});
