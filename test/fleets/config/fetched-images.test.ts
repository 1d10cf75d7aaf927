// Which apps get the module that transforms fetched images.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mayFetchImages } from '../../../runtime/fleets/config/fetched-images/fetched-images.ts';

test('code that sets cf.image is found, and other code with these names is not', () => {
  for (const text of [
    'fetch(url, { cf: { image: { width: 9 } } })',
    'fetch(u,{cf:{cacheTtl:5,image:o}})',
    'const image = {}; return fetch(url, { cf: { image } });',
    'options.cf.image.width = 9;',
    'fetch(url, { "cf": { "image": options } })',
    'options["cf"]["image"] = {};',
  ])
    assert.equal(mayFetchImages(text), true, text);
  for (const text of [
    'request.cf.country',
    'const image = { width: 9 };',
    'headers.get("cf-connecting-ip") ?? "image/png"',
    `request.cf.country${' '.repeat(2_000)}image.width`,
  ])
    assert.equal(mayFetchImages(text), false, text);
});

test('long code is searched at once', { timeout: 60_000 }, () => {
  assert.equal(mayFetchImages('cf.'.repeat(4_000_000)), false);
});
