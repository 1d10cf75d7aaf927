// The finder's search.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keysOf, search } from '../../../ui/models/find.ts';

const items = [
  { group: 'shop', text: 'Logs' },
  { group: 'shop', text: 'Errors' },
  { group: 'app', text: 'blog' },
  { group: 'app', text: 'shop-admin' },
  { group: 'blog', text: 'Logs' },
  { group: 'Cellar', text: 'New app', also: 'create make' },
];
const found = (typed: string) => search(items, typed).map(({ group, text }) => `${group} ${text}`);

test('every word must be in the text, its group or its aliases', () => {
  assert.deepEqual(found('shop log'), ['shop Logs']);
  assert.deepEqual(found('create'), ['Cellar New app']);
  assert.deepEqual(found('shop blog'), []);
});

test('matches at the beginning come first, and equal matches keep their order', () => {
  assert.deepEqual(found('log'), ['shop Logs', 'blog Logs', 'app blog']);
  assert.equal(found('admin')[0], 'app shop-admin');
});

test('items of the current app come first', () => {
  const near = items.map((item) => ({ ...item, near: item.group === 'blog' }));
  assert.equal(search(near, 'log')[0]!.group, 'blog');
});

test('an empty search returns all items, and pattern characters are literal', () => {
  assert.equal(found('  ').length, items.length);
  assert.deepEqual(found('(.*'), []);
});

test('each item has a key of its own, also when others have the same words', () => {
  const same = { group: 'shop', text: 'Bucket files' };
  const keys = keysOf([same, same, { group: 'shop Bucket', text: 'files' }, ...items]);
  assert.equal(new Set(keys).size, items.length + 3);
});
