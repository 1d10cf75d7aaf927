// Mostly waits.
// Pipelines: what send() has acknowledged is written into R2 once, whatever is killed meanwhile.
import assert from 'node:assert/strict';
import { readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/processes.ts';

/** Time after which a batch is written that is not full, in ms. */
const BATCH_MS = 60_000;
const KEY = /^events\/event_date=\d{4}-\d\d-\d\d\/hr=\d\d\/[0-9a-f-]{36}\.ndjson$/;

const cellar = new Cellar();
let app = '';
before(async () => {
  await cellar.start();
  app = await cellar.deploy('events', 'events');
});
after(() => cellar[Symbol.asyncDispose]());

const send = async (records: unknown): Promise<string> => {
  return (await cellar.get('events', '/', { method: 'POST', body: JSON.stringify(records) })).text;
};
const written = async (): Promise<{ key: string; ids: number[] }[]> =>
  JSON.parse((await cellar.get('events', '/')).text);

test('records become objects in R2, in order and once, after the app and the host were killed', async () => {
  const began = Date.now();
  assert.equal(await send([{ id: 1 }, { id: 2 }]), 'sent');
  process.kill(cells(app)[0]!.pid, 'SIGKILL');
  await eventually(
    async () => (await send([{ id: 3 }]).catch(() => '')) === 'sent',
    'it is sent to the next process',
  );
  await cellar.stop('SIGKILL');
  await cellar.start();
  const early = await written();
  if (Date.now() - began < BATCH_MS) assert.deepEqual(early, [], 'a small batch waits');
  const count = async () => Number((await cellar.get('events', '/count')).text);
  // A full batch is written at once. On a busy machine a smaller one may be due first; then more records make a full one.
  const isFull = ({ ids }: { ids: number[] }) => ids.filter((id) => id > 3).length >= 8;
  let last = 3;
  for (let round = 0; round < 5 && !(await written()).some(isFull); round++) {
    const before = await count();
    for (const end = last + 9; last < end; )
      assert.equal(await send([{ id: ++last, text: 'x'.repeat(1_000_000) }]), 'sent');
    await eventually(async () => (await count()) > before, 'a batch is written');
  }
  assert.ok((await written()).some(isFull), 'a full batch is written');
  const ids = async () => (await written()).flatMap((each) => each.ids);
  let seen = await count();
  while ((await ids()).length < last) {
    await eventually(async () => (await count()) > seen, 'the rest follows after a minute', 3 * BATCH_MS);
    seen = await count();
  }
  const objects = await written();
  for (const { key, ids } of objects) {
    assert.match(key, KEY);
    const [first = 0] = ids;
    assert.deepEqual(
      ids,
      ids.map((_, at) => first + at),
    );
  }
  const all = objects.flatMap((each) => each.ids).sort((a, b) => a - b);
  assert.deepEqual(
    all,
    Array.from({ length: last }, (_, i) => i + 1),
  );
});

test('a process that is killed after R2 has an object, and before it knows, loses and doubles no record', async () => {
  // R2 records each object in its index, which the first read creates.
  await cellar.get('events', '/count');
  const bucket = join(cellar.data, 'buckets', app);
  const noted = () => statSync(join(bucket, 'index.sqlite-wal'), { throwIfNoEntry: false })?.mtimeMs;
  const blobs = () => readdirSync(join(bucket, 'blobs'));
  const sent: number[] = [];
  /** Ids of records that were sent and not acknowledged: the killed process may have stored them. */
  const unsure: number[] = [];
  let isInTime = false;
  for (let attempt = 0; attempt < 10 && !isInTime; attempt++) {
    const [before, known] = [noted(), new Set(blobs())];
    const hasWhole = () =>
      blobs().some((name) => !known.has(name) && statSync(join(bucket, 'blobs', name)).size > 8e6);
    const record = (id: number) => [{ id, text: 'x'.repeat(1_000_000) }];
    const first = 100 + 10 * attempt;
    for (let id = first; id < first + 8; id++) {
      assert.equal(await send(record(id)), 'sent');
      sent.push(id);
    }
    const { pid } = cells(app)[0]!;
    const last = send(record(first + 8)).catch(() => 'the process was killed');
    for (const end = Date.now() + 2 * BATCH_MS; !hasWhole(); await setImmediate())
      assert.ok(Date.now() < end);
    process.kill(pid, 'SIGSTOP');
    isInTime = noted() === before;
    await eventually(() => noted() !== before, 'R2 has the object');
    process.kill(pid, 'SIGKILL');
    ((await last) === 'sent' ? sent : unsure).push(first + 8);
    await eventually(
      async () => (await cellar.get('events', '/count')).status === 200 && cells(app)[0]?.pid !== pid,
      'the next process answers',
    );
  }
  assert.ok(isInTime, 'one process was stopped in time');
  const found = async () => {
    const all = await written();
    // While the app starts, the answer may be an error.
    return Array.isArray(all) ? all.flatMap((each) => each.ids.filter((id) => id >= 100)) : [];
  };
  const isWritten = (found: number[]) => sent.every((id) => found.includes(id));
  await eventually(async () => isWritten(await found()), 'all is written', 3 * BATCH_MS);
  const all = await found();
  assert.equal(new Set(all).size, all.length, 'no record twice');
  const others = all.filter((id) => !sent.includes(id));
  assert.ok(
    others.every((id) => unsure.includes(id)),
    `${others} were not sent`,
  );
});

test('while R2 refuses objects, records wait, and only the alarm tries again', async () => {
  const refused = await cellar.deploy('refused', 'events');
  const ask = async (path: string, records?: unknown) =>
    (
      await cellar.get(
        'refused',
        path,
        records === undefined ? {} : { method: 'POST', body: JSON.stringify(records) },
      )
    ).text;
  assert.equal(await ask('/count'), '0');
  // R2 can write no object: a file is in the place of their folder.
  const blobs = join(cellar.data, 'buckets', refused, 'blobs');
  renameSync(blobs, `${blobs} elsewhere`);
  writeFileSync(blobs, '');
  const began = Date.now();
  const one = [{ text: 'x'.repeat(1_000_000) }];
  for (let n = 0; n < 9; n++) assert.equal(await ask('/', one), 'sent');
  const refusals = async () =>
    (await cellar.call('GET', `/v1/apps/${refused}/logs?search=could%20not%20write`)).body.items.length;
  await eventually(async () => (await refusals()) > 0, 'the refusal is logged');
  for (let n = 0; n < 5; n++) assert.equal(await ask('/', one), 'sent');
  await ask('/count');
  const tries = await refusals();
  const alarms = Math.floor((Date.now() - began) / BATCH_MS);
  assert.ok(tries >= 1 && tries <= 1 + alarms, `${tries} tries`);
  rmSync(blobs);
  renameSync(`${blobs} elsewhere`, blobs);
  await eventually(async () => Number(await ask('/count')) > 0, 'the alarm writes', 3 * BATCH_MS);
});

test('wrong records are refused by name', async () => {
  assert.equal(await send({ id: 1 }), 'TypeError: send() takes a list of records.');
  assert.equal(await send([{}, 'text']), 'TypeError: send(): record 1 must be an object.');
  assert.match(
    await send([{ text: 'x'.repeat(1_100_000) }]),
    /^RangeError: send\(\): the records have 1100012 bytes; at most 1048576 are allowed/,
  );
  assert.equal(await send([]), 'sent');
});
