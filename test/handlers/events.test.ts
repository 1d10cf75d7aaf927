// Product events, users and insights.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { TestControl } from '../support/handlers/control.ts';

let control: TestControl;
let id: string;
before(async () => {
  control = await TestControl.start();
  ({ id } = await control.create('eventful'));
});
after(() => control.stop());

const log = (event: object) => control.api('POST', `/v1/apps/${id}/events`, event);
const names = (items: { event: string }[]) => items.map(({ event }) => event);

test('a logged event has the given fields, and the others are null or now', async () => {
  const full = {
    channel: 'orders',
    event: 'Order placed',
    description: 'Two\nlines',
    icon: '🎉',
    tags: { plan: 'pro', seats: 3, trial: false },
    user_id: 'u-1',
    at: '2026-01-01T02:00:00+02:00',
  };
  const { status, body } = await log(full);
  assert.equal(status, 201);
  const { id: eventId, created_at, ...rest } = body;
  assert.match(eventId, /^[0-9a-z]{16}$/);
  assert.deepEqual(rest, { ...full, app_id: id, at: '2026-01-01T00:00:00.000Z' });
  const least = (await log({ channel: 'orders', event: 'Order shipped' })).body;
  assert.deepEqual([least.description, least.icon, least.tags, least.user_id], [null, null, {}, null]);
  assert.equal(least.at, least.created_at);
});

test('events that are ill-formed, or of an unknown app, are refused', async () => {
  const wrong: [object, string][] = [
    [{ event: 'x' }, 'channel'],
    [{ channel: 'c', event: ' ' }, 'event'],
    [{ channel: 'c', event: 'x\u0000' }, 'event'],
    [{ channel: 'c', event: 'x', tags: { a: [] } }, 'tags.a'],
    [{ channel: 'c', event: 'x', at: 'yesterday' }, 'at'],
    [{ channel: 'c', event: 'x', notify: true }, 'notify'],
  ];
  for (const [event, path] of wrong) {
    const { status, body } = await log(event);
    assert.deepEqual([status, body.errors[0].path], [400, path]);
  }
  const nowhere = await control.api('POST', '/v1/apps/nope/events', { channel: 'c', event: 'x' });
  assert.deepEqual([nowhere.status, nowhere.body.code], [404, 'app_not_found']);
});

test('events are listed newest first by their time, filtered, page by page; channels are counted', async () => {
  const { id: app } = await control.create('listed');
  const at = (n: number) => `2026-02-0${n}T00:00:00.000Z`;
  const events = [
    { channel: 'a', event: 'one', at: at(1), user_id: 'u' },
    { channel: 'b', event: 'two', at: at(3) },
    { channel: 'a', event: 'three', at: at(2) },
    { channel: 'a', event: 'four', at: at(3), user_id: 'u' },
  ];
  for (const event of events) await control.api('POST', `/v1/apps/${app}/events`, event);
  const list = async (query: string) => (await control.api('GET', `/v1/apps/${app}/events?${query}`)).body;
  assert.deepEqual(names((await list('')).items), ['four', 'two', 'three', 'one']);
  assert.deepEqual(names((await list('channel=a')).items), ['four', 'three', 'one']);
  assert.deepEqual(names((await list('user_id=u')).items), ['four', 'one']);
  assert.deepEqual(names((await list('event=two')).items), ['two']);
  assert.deepEqual(names((await list('channel=a&user_id=u&event=one')).items), ['one']);
  const first = await list('limit=3');
  const rest = await list(`limit=3&cursor=${first.next_cursor}`);
  assert.deepEqual([names(rest.items), rest.next_cursor], [['one'], null]);
  assert.deepEqual((await control.api('GET', `/v1/apps/${app}/events/channels`)).body, {
    items: [
      { channel: 'a', count: 3, last_at: at(3) },
      { channel: 'b', count: 1, last_at: at(3) },
    ],
    next_cursor: null,
  });
});

test('events are listed newest first even when the clock goes back', async () => {
  const { id: app } = await control.create('unsteady');
  const log = (event: object) => control.api('POST', `/v1/apps/${app}/events`, { channel: 'c', ...event });
  await log({ event: 'one' });
  const future = '2999-01-01T00:00:00.000Z';
  const database = await control.database();
  await database
    .prepare('UPDATE events SET at = ?1, created_at = ?1, sort_at = ?1 WHERE app_id = ?2')
    .bind(future, app)
    .run();
  await log({ event: 'two' });
  await log({ event: 'three' });
  await log({ event: 'long ago', at: '2001-01-01T00:00:00Z' });
  const list = async (query: string) => (await control.api('GET', `/v1/apps/${app}/events?${query}`)).body;
  assert.deepEqual(names((await list('')).items), ['three', 'two', 'one', 'long ago']);
  const first = await list('limit=1');
  assert.deepEqual(names((await list(`limit=1&cursor=${first.next_cursor}`)).items), ['two']);
});

test('identify merges properties of a user, null removes one, and props reads them', async () => {
  const path = `/v1/apps/${id}/identify`;
  const first = await control.api('POST', path, {
    user_id: 'u/1',
    properties: { name: 'Ada', age: 36, old: true },
  });
  assert.deepEqual([first.status, first.body.properties], [201, { name: 'Ada', age: 36, old: true }]);
  const second = await control.api('POST', path, { user_id: 'u/1', properties: { age: 37, old: null } });
  assert.deepEqual([second.status, second.body.properties], [200, { name: 'Ada', age: 37 }]);
  const props = await control.api('GET', `/v1/apps/${id}/users/u%2F1/props`);
  assert.deepEqual([props.status, props.body], [200, second.body]);
  const unknown = await control.api('GET', `/v1/apps/${id}/users/nobody/props`);
  assert.deepEqual([unknown.status, unknown.body.code], [404, 'user_not_found']);
  assert.equal((await control.api('GET', '/v1/apps/nope/users/u/props')).body.code, 'app_not_found');
});

test('a user whose properties would grow too large keeps the old ones', async () => {
  const big = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`p${n}`, 'x'.repeat(2000)]));
  const more = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`q${n}`, 'x'.repeat(2000)]));
  const identify = (properties: object) =>
    control.api('POST', `/v1/apps/${id}/identify`, { user_id: 'big', properties });
  assert.equal((await identify(big)).status, 201);
  assert.equal((await identify(more)).body.code, 'quota_exceeded');
  assert.deepEqual((await control.api('GET', `/v1/apps/${id}/users/big/props`)).body.properties, big);
});

test('an insight is a number or a text, set or incremented; a text cannot be incremented', async () => {
  const set = (insight: object) => control.api('POST', `/v1/apps/${id}/insights`, insight);
  const made = await set({ title: 'Users', value: 10, icon: '👤' });
  assert.deepEqual([made.status, made.body.value, made.body.icon], [201, 10, '👤']);
  const added = await set({ title: 'Users', value: { $inc: 2.5 } });
  assert.deepEqual([added.status, added.body.value, added.body.icon], [200, 12.5, '👤']);
  assert.equal((await set({ title: 'New', value: { $inc: -3 } })).body.value, -3);
  assert.equal((await set({ title: 'Status', value: 'fine' })).body.value, 'fine');
  const text = await set({ title: 'Status', value: { $inc: 1 } });
  assert.deepEqual([text.status, text.body.code], [409, 'insight_not_numeric']);
  for (const value of [{ $dec: 1 }, null, { $inc: 'x' }, []]) {
    assert.equal((await set({ title: 'Users', value })).status, 400);
  }
  const { items } = (await control.api('GET', `/v1/apps/${id}/insights`)).body;
  assert.deepEqual(
    items.map(({ title, value }: { title: string; value: unknown }) => [title, value]),
    [
      ['New', -3],
      ['Status', 'fine'],
      ['Users', 12.5],
    ],
  );
});

test('an increment beyond the largest number is refused, and the number stays', async () => {
  const { id } = await control.create('huge');
  const set = (value: unknown) => control.api('POST', `/v1/apps/${id}/insights`, { title: 'n', value });
  assert.equal((await set(1e308)).status, 201);
  const { status, body } = await set({ $inc: 1e308 });
  assert.deepEqual([status, body.code], [409, 'insight_not_numeric']);
  assert.equal((await control.api('GET', `/v1/apps/${id}/insights`)).body.items[0].value, 1e308);
  assert.equal((await set({ $inc: -1e308 })).body.value, 0);
});

test('a time whose year in UTC does not have four digits is refused', async () => {
  const { id } = await control.create('far-future');
  const log = (at: string) => control.api('POST', `/v1/apps/${id}/events`, { channel: 'c', event: 'e', at });
  for (const at of ['9999-12-31T23:59:59-14:00', '0000-01-01T00:00:00+14:00']) {
    const { status, body } = await log(at);
    assert.deepEqual([status, body.errors[0].path], [400, 'at']);
  }
  assert.equal((await log('9999-12-31T23:59:59Z')).body.at, '9999-12-31T23:59:59.000Z');
});

test('concurrent increments are all counted', async () => {
  const increment = () => control.call('insights.set', { id, title: 'Race', value: { $inc: 1 } });
  await Promise.all(Array.from({ length: 20 }, increment));
  const { items } = (await control.api('GET', `/v1/apps/${id}/insights`)).body;
  assert.equal(items.find(({ title }: { title: string }) => title === 'Race').value, 20);
});

test('users are listed in pages, the last identified first', async () => {
  const { id } = await control.create('peopled');
  for (const user_id of ['a', 'b', 'c', 'a'])
    await control.call('users.identify', { id, user_id, properties: { seen: user_id } });
  const first = await control.call('users.list', { id, limit: 2 });
  assert.equal(first.items.length, 2);
  assert.equal(first.items[0].user_id, 'a');
  assert.deepEqual(first.items[0].properties, { seen: 'a' });
  const last = await control.call('users.list', { id, limit: 2, cursor: first.next_cursor });
  const others = [first.items[1], ...last.items].map(({ user_id }: { user_id: string }) => user_id);
  assert.deepEqual([others.toSorted(), last.next_cursor], [['b', 'c'], null]);
  assert.equal((await control.refusal('users.list', { id: 'nope' })).code, 'app_not_found');
});
