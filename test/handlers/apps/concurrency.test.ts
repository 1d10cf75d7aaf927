// Concurrent callers: quotas, slugs, and lists that change while they are read.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '200' });
});
after(() => control.stop());

const many = <Value>(count: number, run: (n: number) => Promise<Value>): Promise<Value[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => run(n)));
const codes = (answers: { status: number; body: { code?: string } }[]) =>
  new Set(answers.filter(({ status }) => status !== 201).map(({ status, body }) => `${status} ${body.code}`));

test('fifty creates at once never exceed the quota, by either transport, and an app deleted makes room', async () => {
  const small = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '3' });
  try {
    const create = (n: number) => small.api('POST', '/v1/apps', { slug: `app-${n}` });
    const [rest, batch] = await Promise.all([
      many(25, create),
      small.rpc(
        Array.from({ length: 25 }, (_, n) => {
          return { jsonrpc: '2.0', id: n, method: 'apps.create', params: { slug: `rpc-${n}` } };
        }),
      ),
    ]);
    const created = [
      ...rest.filter(({ status }) => status === 201).map(({ body }) => body),
      ...batch.body.flatMap(({ result }: { result?: object }) => result ?? []),
    ];
    assert.equal(created.length, 3);
    assert.deepEqual([...codes(rest)], ['403 quota_exceeded']);
    const refused = rest.find(({ status }) => status === 403)!.body.detail;
    assert.equal(
      refused,
      'This account owns as many apps as its quota allows. Delete one, or have an admin of this machine raise the quota (People in the control UI).',
    );
    assert.equal((await small.api('GET', '/v1/apps')).body.items.length, 3);
    assert.deepEqual([...small.host.wanted.keys()].sort(), created.map(({ id }) => id).sort());
    assert.equal((await small.api('DELETE', `/v1/apps/${created[0].id}`)).status, 204);
    const again = await many(10, (n) => create(n + 50));
    assert.equal(again.filter(({ status }) => status === 201).length, 1);
  } finally {
    await small.stop();
  }
});

test('of fifty creates with one slug exactly one succeeds, and the refused ones leave nothing behind', async () => {
  const answers = await many(50, () => control.api('POST', '/v1/apps', { slug: 'wanted-by-all' }));
  const [won, ...others] = answers.filter(({ status }) => status === 201);
  assert.equal(others.length, 0);
  assert.deepEqual([...codes(answers)], ['409 slug_taken']);
  const { id } = won!.body;
  assert.deepEqual(await control.call('apps.get_by_slug', { slug: 'wanted-by-all' }), won!.body);
  assert.deepEqual([...control.host.wanted.keys()], [id]);
  assert.equal(control.host.sent.filter(({ method }) => method === 'DELETE').length, 0);
  const stopped = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  assert.equal(stopped.body.status, 'stopped');
});

test('of many renames to one slug and creates of it one succeeds, and each refused app keeps its slug', async () => {
  const rivals = await many(10, (n) => control.create(`rival-${n}`));
  const answers = await Promise.all([
    ...rivals.map(({ id }) => control.api('POST', `/v1/apps/${id}/rename`, { slug: 'crown' })),
    ...Array.from({ length: 5 }, () => control.api('POST', '/v1/apps', { slug: 'crown' })),
  ]);
  assert.equal(answers.filter(({ status }) => status < 300).length, 1);
  const { id: winner } = await control.call('apps.get_by_slug', { slug: 'crown' });
  for (const { id, slug } of rivals) {
    const now = (await control.api('GET', `/v1/apps/${id}`)).body.slug;
    assert.equal(now, id === winner ? 'crown' : slug);
    assert.equal(control.host.wanted.get(id)!.slug, now);
  }
});

/** Reads a list page by page, and changes it after each page. */
async function pages(
  method: string,
  params: object,
  change: (page: number) => Promise<unknown>,
): Promise<Record<string, string>[]> {
  const seen: Record<string, string>[] = [];
  let cursor: string | null = null;
  let page = 0;
  do {
    const asked: { items: Record<string, string>[]; next_cursor: string | null } = await control.call(
      method,
      { ...params, limit: 5, ...(cursor && { cursor }) },
    );
    seen.push(...asked.items);
    cursor = asked.next_cursor;
    await change(page++);
  } while (cursor !== null && page < 100);
  return seen;
}

test('apps that stay are listed once each, in order, while others come and go', async () => {
  const stay = await many(20, (n) => control.create(`stays-${n}`));
  const go = await many(10, (n) => control.create(`goes-${n}`));
  const seen = await pages('apps.list', {}, async (page) => {
    await control.create(`comes-${page}`);
    const leaving = page % 2 === 0 ? go.shift() : go.pop();
    if (leaving) await control.api('DELETE', `/v1/apps/${leaving.id}`);
  });
  const ids = seen.map(({ id }) => id!);
  assert.deepEqual(ids, ids.toSorted().reverse());
  assert.equal(new Set(ids).size, ids.length);
  for (const { id } of stay) assert.ok(ids.includes(id));
});

test('a list ordered by name continues after its last row was removed, and shows rows added behind it', async () => {
  const { id } = await control.create('variables');
  const set = (name: string) => control.api('POST', `/v1/apps/${id}/env`, { name, value: 'x' });
  for (let n = 10; n < 30; n++) await set(`V${n}`);
  const seen = await pages('env.list', { id }, async (page) => {
    // V14 is the last row that was shown. V10A sorts before the cursor, V25A behind it.
    if (page === 0) await control.api('DELETE', `/v1/apps/${id}/env/V14`);
    if (page === 1) await Promise.all([set('V10A'), set('V25A')]);
  });
  const names = Array.from({ length: 20 }, (_, n) => `V${n + 10}`);
  assert.deepEqual(
    seen.map(({ name }) => name),
    [...names, 'V25A'].sort(),
  );
});

test('events logged while the list is read are neither repeated nor inserted', async () => {
  const { id } = await control.create('eventful');
  const log = (event: string) => control.call('events.log', { id, channel: 'c', event });
  for (let n = 0; n < 23; n++) await log(`e${n}`);
  const seen = await pages('events.list', { id }, (page) => many(3, (n) => log(`later-${page}-${n}`)));
  assert.deepEqual(
    seen.map(({ event }) => event).sort(),
    Array.from({ length: 23 }, (_, n) => `e${n}`).sort(),
  );
});
