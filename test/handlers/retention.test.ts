// Records are bounded by age, and by number for each app.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { EVENTS_LIMIT, INSIGHTS_LIMIT, USERS_LIMIT } from '../../handlers/contract/sizes.ts';
import { TestControl, TOKEN } from '../support/handlers/control.ts';
import { EventReader } from '../support/handlers/events-source.ts';
import { eventually } from '../support/processes.ts';

const OLD = '2001-01-01T00:00:00.000Z';

let control: TestControl;
// biome-ignore lint/suspicious/noExplicitAny: the database as Miniflare gives it
let database: any;
before(async () => {
  control = await TestControl.start();
  database = await control.database();
});
after(() => control.stop());

const run = (sql: string, ...values: unknown[]) =>
  database
    .prepare(sql)
    .bind(...values)
    .run();
const count = async (table: string, id: string) =>
  (await database.prepare(`SELECT count(*) AS n FROM ${table} WHERE app_id = ?`).bind(id).first()).n;
const NUMBERS = 'WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)';

test('records older than the retention are removed, however many', async () => {
  const { id } = await control.create('aged');
  await run(
    `${NUMBERS} INSERT INTO events (id, app_id, channel, event, tags, at, created_at, seq, sort_at)
     SELECT 'old' || n, ?1, 'c', 'e', '{}', ?3, ?3, n, ?3 FROM numbers`,
    ...[id, 1201, OLD],
  );
  await run("INSERT INTO users VALUES (?, 'old', '{}', ?2, ?2, 1)", id, OLD);
  await run("INSERT INTO insights VALUES (?, 'old', 1, NULL, ?2, ?2, 1)", id, OLD);
  await control.call('events.log', { id, channel: 'c', event: 'new' });
  await control.call('users.identify', { id, user_id: 'new', properties: {} });
  await control.call('insights.set', { id, title: 'new', value: 1 });
  assert.equal((await control.internal('/internal/prune', {})).status, 204);
  for (const table of ['events', 'users', 'insights']) assert.equal(await count(table, id), 1, table);
  assert.equal((await control.call('events.list', { id })).items[0].event, 'new');
});

test('of an app’s deploys the last 200 are kept, and those that are live, running or needed for a rollback', async () => {
  const { id } = await control.create('deployed');
  await run(
    `${NUMBERS} INSERT INTO deploys (id, app_id, sha, ref, message, author, trigger, status, steps, created_at, seq,
       can_roll_back)
     SELECT format('%016d', n), ?1, '', '', '', '', 'push',
       CASE n WHEN 1 THEN 'live' WHEN 2 THEN 'building' WHEN 3 THEN 'replaced' ELSE 'failed' END, '[]', ?3, n, n = 3
     FROM numbers`,
    ...[id, 900, OLD],
  );
  await control.internal('/internal/prune', {});
  const { results } = await database
    .prepare('SELECT seq FROM deploys WHERE app_id = ? ORDER BY seq')
    .bind(id)
    .all();
  const kept = results.map(({ seq }: { seq: number }) => seq);
  assert.deepEqual(kept, [1, 2, 3, ...Array.from({ length: 200 }, (_, n) => 701 + n)]);
});

test('events, users and insights of an app are bounded: the oldest are deleted, even when the clock goes back', async () => {
  const { id } = await control.create('crowded');
  await run(
    `${NUMBERS} INSERT INTO events (id, app_id, channel, event, tags, at, created_at, seq, sort_at)
     SELECT 'full' || n, ?1, 'c', 'e', '{}', ?3, ?3, n, ?3 FROM numbers`,
    ...[id, EVENTS_LIMIT, OLD],
  );
  await run(
    `${NUMBERS} INSERT INTO users SELECT ?1, 'u' || n, '{}', ?3, '2999-01-01T00:00:00.000Z', n FROM numbers`,
    ...[id, USERS_LIMIT, OLD],
  );
  await run(
    `${NUMBERS} INSERT INTO insights SELECT ?1, 't' || n, 1, NULL, ?3, '2999-01-01T00:00:00.000Z', n FROM numbers`,
    ...[id, INSIGHTS_LIMIT, OLD],
  );
  await control.call('events.log', { id, channel: 'c', event: 'new' });
  await control.call('users.identify', { id, user_id: 'new', properties: {} });
  await control.call('insights.set', { id, title: 'new', value: 1 });
  assert.equal(await count('events', id), EVENTS_LIMIT);
  assert.equal(await count('users', id), USERS_LIMIT);
  assert.equal(await count('insights', id), INSIGHTS_LIMIT);
  const { items } = await control.call('users.list', { id, limit: 2 });
  assert.deepEqual(
    items.map(({ user_id }: { user_id: string }) => user_id),
    ['new', `u${USERS_LIMIT}`],
  );
  await control.call('insights.set', { id, title: 'new', value: { $inc: 1 } });
  assert.equal((await control.refusal('users.props', { id, user_id: 'u1' })).code, 'user_not_found');
  assert.equal((await control.call('events.list', { id, limit: 1 })).items[0].event, 'new');
});

test('the backlog of a stream ends with the retention, and a client that resumes later gets a reset', async (t) => {
  // 0.00001 days are about one second.
  const brief = await TestControl.start({ RUNNER_TELEMETRY_RETENTION_DAYS: '0.00001' });
  t.after(() => brief.stop());
  const { id } = await brief.create('brief');
  for (const event of ['one', 'two', 'three']) await brief.call('events.log', { id, channel: 'c', event });
  const first = async () => {
    const reader = await EventReader.open(`${brief.url}/v1/apps/${id}/events/stream`, {
      headers: { authorization: `Bearer ${TOKEN}`, 'last-event-id': '0' },
    });
    const [event] = await reader.take(1);
    reader.close();
    return event!.event;
  };
  await eventually(async () => (await first()) === 'reset', 'the first events are gone');
  await brief.call('events.log', { id, channel: 'c', event: 'four' });
  const reader = await EventReader.open(`${brief.url}/v1/apps/${id}/events/stream`, {
    headers: { authorization: `Bearer ${TOKEN}`, 'last-event-id': '3' },
  });
  const [event] = await reader.take(1);
  reader.close();
  assert.deepEqual([event!.id, JSON.parse(event!.data!).event], ['4', 'four']);
});
