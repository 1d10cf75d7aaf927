// The limits of both planes side by side. Every layer takes the largest input that the contract allows.
// Anything larger is refused at the API. The test's host has the limits of the real one.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { DOMAIN_LIMIT } from '../../../handlers/contract/apps/domains.ts';
import { ENV_LIMIT } from '../../../handlers/contract/apps/env.ts';
import {
  BODY_BYTES,
  COMMIT_BODY_BYTES,
  CURSOR_LENGTH,
  ENV_BYTES,
  ENV_VALUE_BYTES,
  FACTS_BYTES,
  HOST_COMMIT_BYTES,
  HOST_EVENTS_BYTES,
  PROPERTIES_BYTES,
  TAGS_BYTES,
  WANTED_BYTES,
} from '../../../handlers/contract/sizes.ts';
import { byteLength } from '../../../handlers/contract/text.ts';
import { TestControl } from '../../support/handlers/control.ts';

let control: TestControl;
before(async () => {
  control = await TestControl.start({ RUNNER_MAX_APPS_PER_USER: '100' });
});
after(() => control.stop());

const sentStates = (id: string) => control.host.calls('PUT', `/apps/${id}`).map(({ body }) => body);

test('all variables that an app may have reach the host with all its domains; one byte more is refused', async () => {
  const { id } = await control.create('largest');
  // JSON escapes each of these as six bytes.
  const worst = '\u0001';
  const names = Array.from({ length: ENV_BYTES / ENV_VALUE_BYTES }, (_, n) => `V${n}`.padEnd(16, '_'));
  const last = names.pop()!;
  for (const name of names) {
    await control.call('env.set', { id, name, value: worst.repeat(ENV_VALUE_BYTES - name.length) });
  }
  const value = '語'.repeat(Math.floor((ENV_VALUE_BYTES - last.length) / 3)).padEnd(0);
  const room = ENV_VALUE_BYTES - last.length - byteLength(value);
  await control.call('env.set', { id, name: last, value: value + worst.repeat(room) });
  const over = await control.api('POST', `/v1/apps/${id}/env`, {
    name: last,
    value: `${value}${worst.repeat(room + 1)}`,
  });
  assert.deepEqual([over.status, over.body.code, over.body.errors[0].path], [403, 'quota_exceeded', 'value']);
  assert.match(
    over.body.errors[0].message,
    /may have at most 262144 bytes together; shorten the value, or delete other variables/,
  );
  const another = await control.api('POST', `/v1/apps/${id}/env`, { name: 'A', value: '' });
  assert.equal(another.status, 403);
  const database = await control.database();
  await database.batch(
    Array.from({ length: DOMAIN_LIMIT }, (_, n) =>
      database
        .prepare("INSERT INTO domains (hostname, app_id, created_at, proved_at) VALUES (?, ?, '', '')")
        .bind(`${n}.`.padEnd(253, 'a'), id),
    ),
  );
  const stopped = await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' });
  assert.equal(stopped.status, 200, stopped.text);
  assert.ok(byteLength(sentStates(id).at(-1)!) > 6 * ENV_BYTES * 0.9);
});

test('one value may have as many bytes as the contract says, in any script', async () => {
  const { id } = await control.create('scripts');
  const set = (value: string) => control.api('POST', `/v1/apps/${id}/env`, { name: 'A', value });
  assert.equal((await set('x'.repeat(ENV_VALUE_BYTES))).status, 201);
  assert.equal((await set('語'.repeat(Math.floor(ENV_VALUE_BYTES / 3)))).status, 200);
  const over = await set('語'.repeat(Math.ceil(ENV_VALUE_BYTES / 3)));
  assert.deepEqual([over.status, over.body.errors[0].path], [400, 'value']);
  assert.match(over.body.detail, /16384 bytes in UTF-8/);
});

test('an app with variables over the total limit, set before it existed, can be stopped, renamed and fixed', async () => {
  const { id } = await control.create('older');
  const database = await control.database();
  await database.batch(
    Array.from({ length: ENV_LIMIT }, (_, n) =>
      database
        .prepare("INSERT INTO env (app_id, name, value, created_at, updated_at) VALUES (?, ?, ?, '', '')")
        .bind(id, `V${n}`, '\u0001'.repeat(16_384)),
    ),
  );
  assert.equal((await control.api('PATCH', `/v1/apps/${id}`, { desired_state: 'stopped' })).status, 200);
  assert.equal((await control.api('POST', `/v1/apps/${id}/rename`, { slug: 'older-2' })).status, 200);
  assert.equal((await control.api('DELETE', `/v1/apps/${id}/env/V1`)).status, 204);
  assert.ok(sentStates(id).every((body) => byteLength(body) < WANTED_BYTES));
});

test('a body has the same limit over REST and RPC, and a commit’s files reach the host over both', async () => {
  const { id } = await control.create('bodies');
  const padded = (body: object, bytes: number) => {
    const text = JSON.stringify(body);
    return text + ' '.repeat(bytes - text.length);
  };
  const event = { channel: 'c', event: 'e' };
  const path = `/v1/apps/${id}/events`;
  assert.equal((await control.api('POST', path, padded(event, BODY_BYTES))).status, 201);
  assert.equal((await control.api('POST', path, padded(event, BODY_BYTES + 1))).status, 413);
  const large = { id, ...event, description: 'x'.repeat(BODY_BYTES + 8192) };
  assert.equal((await control.refusal('events.log', large)).code, 'body_too_large');

  const commit = (content: string) => ({
    message: 'm',
    author_email: 'a@example.com',
    files: [{ path: 'a', content }],
  });
  const room = COMMIT_BODY_BYTES - JSON.stringify(commit('')).length;
  const commits = () => control.host.calls('POST', `/apps/${id}/source/commit`);
  await control.api('POST', `/v1/apps/${id}/source/commit`, commit('x'.repeat(room)));
  assert.equal(commits().length, 1);
  const over = await control.api('POST', `/v1/apps/${id}/source/commit`, commit('x'.repeat(room + 1)));
  assert.equal(over.status, 413);
  await control.refusal('source.commit', { id, ...commit('x'.repeat(room)) });
  assert.equal(commits().length, 2);
  assert.ok(commits().every(({ body }) => body.length > room && body.length <= HOST_COMMIT_BYTES));
});

test('the properties of a user have one limit, whether they are sent at once or in parts', async () => {
  const { id } = await control.create('known');
  const value = '語'.repeat(600);
  const properties = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, k) => [`k${k}`, value]));
  const identify = (user_id: string, given: object) =>
    control.api('POST', `/v1/apps/${id}/identify`, { user_id, properties: given });
  const most = Math.floor(PROPERTIES_BYTES / byteLength(`"k10":"${value}",`));
  assert.equal((await identify('a', properties(most))).status, 201);
  assert.equal((await identify('a', { k0: 'shorter' })).status, 200);
  assert.equal((await identify('a', properties(most))).status, 200);
  const atOnce = await identify('b', properties(most + 1));
  assert.deepEqual([atOnce.status, atOnce.body.errors[0].path], [400, 'properties']);
  const inPieces = await identify('a', { more: value });
  assert.deepEqual([inPieces.status, inPieces.body.errors[0].path], [403, 'properties']);
  const tags = (n: number) => ({ channel: 'c', event: 'e', tags: { a: 'x'.repeat(2000), ...properties(n) } });
  const fits = Math.floor((TAGS_BYTES - 2010) / byteLength(`"k1":"${value}",`));
  assert.equal((await control.api('POST', `/v1/apps/${id}/events`, tags(fits))).status, 201);
  assert.equal((await control.api('POST', `/v1/apps/${id}/events`, tags(fits + 1))).status, 400);
});

test('a cursor continues the list that issued it, whatever the titles, and no other list', async () => {
  const { id } = await control.create('cursors');
  const { id: other } = await control.create('cursors-2');
  for (const place of ['語'.repeat(200), '"'.repeat(200), '😀'.repeat(100)]) {
    for (const end of ['', 'z'])
      await control.call('insights.set', { id, title: place.slice(0, 198) + end, value: 1 });
    await control.call('events.log', { id, channel: place.slice(0, 100), event: 'e' });
  }
  for (const [method, path] of [
    ['insights.list', `/v1/apps/${id}/insights`],
    ['events.channels', `/v1/apps/${id}/events/channels`],
  ] as const) {
    let cursor: string | null = null;
    let seen = 0;
    do {
      const query: string = cursor === null ? '' : `&cursor=${cursor}`;
      const { status, body, text } = await control.api('GET', `${path}?limit=1${query}`);
      assert.equal(status, 200, text);
      seen += body.items.length;
      assert.ok((body.next_cursor?.length ?? 0) <= CURSOR_LENGTH);
      cursor = body.next_cursor ?? cursor;
      if (body.next_cursor === null) break;
    } while (seen < 100);
    assert.equal(seen, method === 'insights.list' ? 6 : 3);
    for (const wrong of [path.replace(id, other), `/v1/apps/${id}/domains`, '/v1/apps']) {
      const refused = await control.api('GET', `${wrong}?cursor=${cursor}`);
      assert.deepEqual([refused.status, refused.body.errors[0].path], [400, 'cursor'], wrong);
    }
  }
});

test('a batch of facts, and one fact larger than a batch, fit into one delivery', async () => {
  const { id } = await control.create('facts');
  const event = (seq: number, length: number) => ({
    seq,
    at: '2026-01-01T00:00:00.000Z',
    type: 'lines',
    lines: { app_id: 'f'.repeat(16), deploy_id: '0'.repeat(16), lines: ['x'.repeat(length)] },
  });
  const tell = (length: number) =>
    control.internal('/internal/host-events', {
      outbox: id,
      events: [event(1, FACTS_BYTES), event(2, length)],
    });
  assert.equal((await tell(HOST_EVENTS_BYTES - FACTS_BYTES - 1000)).status, 204);
  assert.equal((await tell(HOST_EVENTS_BYTES - FACTS_BYTES)).status, 413);
});
