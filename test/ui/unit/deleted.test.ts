// The list of deleted apps: an open page reads it again only after an app came or went.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { signal } from '@preact/signals';
import type { Resource } from '../../../ui/live.ts';
import type { Overview } from '../../../ui/models/apps.ts';
import { deletedModel } from '../../../ui/models/deleted.ts';

const overview = (...ids: string[]) => ({ items: ids.map((id) => ({ id })) }) as Overview;

test('the deleted apps are read when the page opens, and when other apps are there', (t) => {
  const page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  Object.assign(globalThis, { document: page });
  t.after(() => Reflect.deleteProperty(globalThis, 'document'));
  const { mock } = t.mock.method(globalThis, 'fetch', async () =>
    Response.json({ jsonrpc: '2.0', id: 1, result: { items: [], next_cursor: null } }),
  );
  const data = signal<Overview | null>(overview('one', 'two'));
  const model = deletedModel({ data } as unknown as Resource<Overview>);
  assert.equal(mock.callCount(), 1);
  data.value = overview('one', 'two');
  assert.equal(mock.callCount(), 1);
  data.value = overview('one');
  assert.equal(mock.callCount(), 2);
  model.close();
  data.value = overview();
  assert.equal(mock.callCount(), 2);
});
