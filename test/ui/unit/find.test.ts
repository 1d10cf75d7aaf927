// What is found by typing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { search } from '../../../ui/models/find.ts';

const items = [
  { group: 'shop', text: 'Logs' },
  { group: 'shop', text: 'Errors' },
  { group: 'app', text: 'blog' },
  { group: 'app', text: 'shop-admin' },
  { group: 'blog', text: 'Logs' },
  { group: 'Cellar', text: 'New app', also: 'create make' },
];
const found = (typed: string) => search(items, typed).map(({ group, text }) => `${group} ${text}`);

test('every word has to be there, in the text, its group or what else it is called', () => {
  assert.deepEqual(found('shop log'), ['shop Logs']);
  assert.deepEqual(found('create'), ['Cellar New app']);
  assert.deepEqual(found('shop blog'), []);
});

test('a beginning comes before a middle, and the order holds between equals', () => {
  assert.deepEqual(found('log'), ['shop Logs', 'blog Logs', 'app blog']);
  assert.equal(found('admin')[0], 'app shop-admin');
});

test('what is of the app that one is in comes first', () => {
  const near = items.map((item) => ({ ...item, near: item.group === 'blog' }));
  assert.equal(search(near, 'log')[0]!.group, 'blog');
});

test('with nothing typed all of it is there, and signs of patterns are only signs', () => {
  assert.equal(found('  ').length, items.length);
  assert.deepEqual(found('(.*'), []);
});
