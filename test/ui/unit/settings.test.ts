// Input in the settings of an app, and paged lists.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { pages, streamed } from '../../../ui/models/pages.ts';
import { mailDomains, offersAlert, publicAddress, rpmOf, variablesOf } from '../../../ui/models/settings.ts';

before(() => {
  // Models need only the page's visibility.
  const page = { visibilityState: 'visible', addEventListener() {}, removeEventListener() {} };
  Object.assign(globalThis, { document: page });
});

test('parses a .env file: comments, export, quotes and escapes', () => {
  const text = `# a comment
A=1
export B = two words # and a comment
C="line\\nbreak \\"quoted\\""
D='as it is # here'
not a line
E=`;
  assert.deepEqual(variablesOf(text), [
    { name: 'A', value: '1' },
    { name: 'B', value: 'two words' },
    { name: 'C', value: 'line\nbreak "quoted"' },
    { name: 'D', value: 'as it is # here' },
    { name: 'E', value: '' },
  ]);
});

test('parses requests per minute: empty is the default, 0 is off, invalid text is refused', () => {
  assert.deepEqual([rpmOf(' '), rpmOf('0'), rpmOf('1800')], [null, 0, 1800]);
  for (const text of ['-1', '1.5', 'many', '10000001', '1e3']) assert.equal(rpmOf(text), undefined, text);
});

test('reads a list in pages, and hides a row until it is unhidden', async () => {
  const asked: (string | undefined)[] = [];
  const list = pages(
    async (cursor) => {
      asked.push(cursor);
      return cursor ? { items: ['c'], next_cursor: null } : { items: ['a', 'b'], next_cursor: 'two' };
    },
    (item) => item,
  );
  await list.refresh();
  assert.deepEqual([list.items.value, list.hasMore.value], [['a', 'b'], true]);
  await list.more();
  await list.more();
  assert.deepEqual([list.items.value, list.hasMore.value], [['a', 'b', 'c'], false]);
  list.hide('b');
  assert.deepEqual(list.items.value, ['a', 'c']);
  list.unhide('b');
  assert.deepEqual(list.items.value, ['a', 'b', 'c']);
  assert.equal(asked.at(-1), 'two');
  list.close();
});

test('merges a stream into a list that was read, and marks the new items', async () => {
  const list = pages(
    async () => ({ items: ['a'], next_cursor: null }),
    (item) => item,
  );
  let receiver!: { onItems(items: string[]): void };
  let isFollowed = true;
  const { isNew, close } = streamed(
    list,
    (before, received) => [...new Set([...received, ...before])],
    (given) => {
      receiver = given;
      return () => {
        isFollowed = false;
      };
    },
  );
  receiver.onItems(['early']);
  await list.refresh();
  receiver.onItems(['b', 'a']);
  assert.deepEqual(list.items.value, ['b', 'a']);
  assert.deepEqual(['early', 'a', 'b'].map(isNew), [false, false, true]);
  close();
  assert.equal(isFollowed, false);
});

test('names a public address for DNS records, and none where only private ones are known', () => {
  assert.equal(publicAddress(['10.0.0.1', '2001:db8::1', '203.0.113.5']), '203.0.113.5');
  assert.equal(publicAddress(['192.168.1.2', '2001:db8::1']), '2001:db8::1');
  assert.equal(publicAddress(['172.20.0.1', '127.0.0.1', 'fd00::1', '100.64.0.1']), null);
});

test('names each domain of e-mail addresses that needs a record, once', () => {
  const addresses = ['a@shop.example.com', '*@shop.example.com', 'b@my.cellar.example', 'c@bakery.example'];
  const routes = addresses.map((address) => ({ address, app_id: 'a', created_at: '' }));
  assert.deepEqual(mailDomains(routes, 'cellar.example'), ['bakery.example', 'shop.example.com']);
});

test('alerts about the bucket and other hosts are offered where there are some, or where they are on', () => {
  const alone = { bucket: false, hosts: false };
  const offered = (machine: typeof alone, on: ('bucket' | 'host')[] = []) =>
    (['crash', 'bucket', 'host'] as const).filter((kind) => offersAlert(kind, machine, on));
  assert.deepEqual(offered(alone), ['crash']);
  assert.deepEqual(offered({ ...alone, bucket: true }), ['crash', 'bucket']);
  assert.deepEqual(offered({ ...alone, hosts: true }), ['crash', 'host']);
  assert.deepEqual(offered(alone, ['bucket']), ['crash', 'bucket']);
});
