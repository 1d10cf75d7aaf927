// Mostly waits.
// Pipelines: what send() has acknowledged is written into R2 once, whatever is killed meanwhile.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { cells, eventually } from '../support/e2e/processes.ts';

const cellar = new Cellar();
before(() => cellar.start());
after(() => cellar[Symbol.asyncDispose]());

const send = async (records: unknown): Promise<string> => {
  return (await cellar.get('events', '/', { method: 'POST', body: JSON.stringify(records) })).text;
};
const written = async (): Promise<{ key: string; ids: number[] }[]> =>
  JSON.parse((await cellar.get('events', '/')).text);

test('records become objects in R2, in order and once, after the app and the host were killed', async () => {
  const app = await cellar.deploy('events', 'events');
  assert.equal(await send([{ id: 1 }, { id: 2 }]), 'sent');
  process.kill(cells(app)[0]!.pid, 'SIGKILL');
  await eventually(
    async () => (await send([{ id: 3 }]).catch(() => '')) === 'sent',
    'it is sent to the next process',
  );
  await cellar.stop('SIGKILL');
  await cellar.start();
  assert.deepEqual(await written(), [], 'a small batch waits');
  // A full batch is written at once.
  for (let id = 4; id <= 12; id++) assert.equal(await send([{ id, text: 'x'.repeat(1_000_000) }]), 'sent');
  const count = async () => Number((await cellar.get('events', '/count')).text);
  await eventually(async () => (await count()) > 0, 'the batch is written');
  const [{ key, ids }] = (await written()) as [{ key: string; ids: number[] }];
  assert.match(key, /^events\/event_date=\d{4}-\d\d-\d\d\/hr=\d\d\/[0-9a-f-]{36}\.ndjson$/);
  assert.deepEqual(
    ids,
    ids.map((_, i) => i + 1),
  );
  assert.equal(ids.length, 11);
  await eventually(async () => (await count()) === 2, 'the rest follows after a minute', 90_000);
  const all = (await written()).flatMap((each) => each.ids).sort((a, b) => a - b);
  assert.deepEqual(
    all,
    Array.from({ length: 12 }, (_, i) => i + 1),
  );
});

test('wrong records are refused by name', async () => {
  assert.equal(await send({ id: 1 }), 'TypeError: send() takes a list of records.');
  assert.equal(await send([{}, 'text']), 'TypeError: send(): record 1 must be an object.');
  assert.match(
    await send([{ text: 'x'.repeat(1_100_000) }]),
    /^RangeError: send\(\): the records have 1100012 bytes; 1048576 are allowed/,
  );
  assert.equal(await send([]), 'sent');
});
