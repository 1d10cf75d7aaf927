// The namespace of Workers Sites.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { call, cellOptions, makeRelease } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const APP = `export default {
  async fetch(request, env) {
    const keys = new URL(request.url).searchParams.getAll('key');
    try {
      const values = await env.__STATIC_CONTENT.get(keys);
      return Response.json([...values].map(([key, text]) => [key, text?.length ?? null]));
    } catch (error) {
      return new Response(error.message, { status: 500 });
    }
  },
};`;

test('a bulk read of more than 25 MiB is refused, also when that are fewer characters', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(
    `${root}/r`,
    APP,
    {
      assets: {
        ...{ directory: 'public', siteManifest: 'manifest.json', binding: null, runWorkerFirst: true },
        ...{ notFoundHandling: 'none', htmlHandling: 'none' },
      },
    },
    {
      'public/a.txt': '\u20ac'.repeat(5 * 2 ** 20),
      'public/b.txt': '\u20ac'.repeat(5 * 2 ** 20),
      'manifest.json': JSON.stringify({ 'a.txt': 'a', 'b.txt': 'b' }),
    },
  );
  const cell = await startCell(await cellOptions(root, directory));
  t.after(() => cell.stop());
  const get = (...keys: string[]) =>
    call(cell.socketPath('http'), `/?${keys.map((key) => `key=${key}`).join('&')}`);
  assert.deepEqual(JSON.parse((await get('a', 'none')).text), [
    ['a', 5 * 2 ** 20],
    ['none', null],
  ]);
  const refused = await get('a', 'b');
  assert.equal(refused.status, 500);
  assert.match(refused.text, /413/);
});
