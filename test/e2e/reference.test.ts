// The API reference: its page loads its files from the package and nothing from other hosts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { request } from 'undici';
import { sharedCellar } from '../support/e2e/shared.ts';

/** Largest total size of the compressed files that a browser loads. */
const MOST_BYTES = 512 * 1024;

const cellar = sharedCellar('running');

test('the page loads its viewer from the same origin, without a token, in half a MiB', async () => {
  const page = await fetch(`${cellar.api}/docs`);
  assert.equal(page.status, 200);
  assert.match(page.headers.get('content-security-policy')!, /default-src 'none'; script-src 'self'/);
  const html = await page.text();
  const files = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path!);
  assert.deepEqual(files, ['/docs/viewer.css', '/docs/viewer.js', '/docs/start.js']);
  let bytes = 0;
  for (const path of files) {
    // This client does not decompress, so it counts the bytes that are sent.
    const { statusCode, body } = await request(cellar.api + path);
    assert.equal(statusCode, 200, path);
    const { byteLength } = await body.arrayBuffer();
    assert.ok(byteLength > 100, path);
    bytes += byteLength;
  }
  assert.ok(bytes > MOST_BYTES / 10 && bytes < MOST_BYTES, `${bytes} bytes`);
  const start = await (await fetch(`${cellar.api}/docs/start.js`)).text();
  assert.match(start, /url: '\/openapi\.json'/);
  assert.match(
    ((await (await fetch(`${cellar.api}/openapi.json`)).json()) as { openapi: string }).openapi,
    /^3\.1/,
  );
  assert.equal((await fetch(`${cellar.api}/docs/../token`)).status, 401);
  assert.equal((await fetch(`${cellar.api}/docs/package.json`)).status, 404);
});
