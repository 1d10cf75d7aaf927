// How a release finds the Durable Object classes of other apps.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KnownApps } from '../../../runtime/apps/known/known-apps.ts';
import { keyOf } from '../../../runtime/builds/release/object-classes.ts';

test('a release with many bindings to one app asks its host once', async () => {
  const asked: string[] = [];
  const apps = {
    ...{ siblingOf: (_id: string, slug: string) => `id of ${slug}`, originOf: (id: string) => id },
    get: () => undefined,
    others: {
      classesOf: async (id: string) => {
        asked.push(id);
        return { Room: `key of ${id}` };
      },
    },
  } as unknown as KnownApps;
  const find = keyOf(apps, 'caller');
  const named = (binding: string, script: string) => ({ binding, script, className: 'Room' });
  assert.equal(await find(named('ONE', 'rooms')), 'key of id of rooms');
  assert.equal(await find(named('TWO', 'rooms')), 'key of id of rooms');
  assert.equal(await find(named('THREE', 'halls')), 'key of id of halls');
  assert.deepEqual(asked, ['id of rooms', 'id of halls']);
  await assert.rejects(find({ ...named('FOUR', 'rooms'), className: 'Hall' }), /FOUR: .* has no class Hall/);
});
