// The router: parsing and printing of addresses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { href, parseRoute, paths, type Route, type RouteName } from '../../../ui/router.ts';
import { randomCases } from '../../support/random.ts';

test('parses the address of a view, and decodes its parameters', () => {
  assert.deepEqual(parseRoute('/'), { name: 'apps' });
  assert.deepEqual(parseRoute('/apps/shop'), { name: 'overview', app: 'shop' });
  assert.deepEqual(parseRoute('/apps/shop/'), { name: 'overview', app: 'shop' });
  assert.deepEqual(parseRoute('/apps/shop/deploys/x1'), { name: 'deploy', app: 'shop', deploy: 'x1' });
  assert.deepEqual(parseRoute('/apps/shop/source/src/a%20b.ts'), {
    name: 'source',
    app: 'shop',
    path: 'src/a b.ts',
  });
  assert.deepEqual(parseRoute('/apps/shop/source'), { name: 'source', app: 'shop', path: '' });
});

test('a folder of a bucket keeps its slashes', () => {
  const at = '/apps/shop/storage/buckets/files';
  for (const [prefix, path] of [
    ['', at],
    ['a/', `${at}/a/`],
    ['/', `${at}/~/`],
    ['a//', `${at}/a/~/`],
    ['//~/', `${at}/~/~/~~/`],
  ] as const) {
    const route = { name: 'bucket', app: 'shop', bucket: 'files', prefix } as const;
    assert.equal(href(route), path);
    assert.deepEqual(parseRoute(path), route);
  }
  assert.equal((parseRoute(`${at}/`) as { prefix: string }).prefix, '');
});

test('parses no other address', () => {
  for (const path of ['/apps', '/apps/', '/apps/shop/nothing', '/nothing', '/apps/%ff', '/new/more'])
    assert.equal(parseRoute(path), null, path);
});

test('parses every route that it prints', () => {
  const segment = fc.oneof(
    fc.string({ minLength: 1, unit: 'grapheme' }),
    fc.constantFrom('.', '..', '~..', '~~.', '~', '%2e%2e'),
  );
  const part = fc.oneof(
    segment.filter((text) => !text.includes('/')),
    fc.constant(''),
  );
  const tail = fc.array(part).map((parts) => parts.join('/'));
  fc.assert(
    fc.property(
      fc.constantFrom(...(Object.keys(paths) as RouteName[])),
      fc.infiniteStream(segment),
      tail,
      (name, values, rest) => {
        const caught = paths[name].matchAll(/:(\w+)(\*?)/g);
        const params = [...caught].map(([, key, star]) => [key, star ? rest : values.next().value]);
        const route = { name, ...Object.fromEntries(params) } as Route;
        // As a browser follows the link.
        assert.deepEqual(parseRoute(new URL(href(route), 'http://cellar').pathname), route);
      },
    ),
    randomCases(),
  );
});

test('omits empty values from the query', () => {
  assert.equal(href({ name: 'apps' }, { q: '' }), '/');
  assert.equal(
    href({ name: 'logs', app: 'shop' }, { q: 'a b', level: null, n: 3 }),
    '/apps/shop/logs?q=a+b&n=3',
  );
});
