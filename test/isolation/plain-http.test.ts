import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isExposed } from '../../runtime/isolation/plain-http.ts';

test('a store over plain HTTP is exposed on public addresses only', async () => {
  for (const url of ['http://1.1.1.1:9000', 'http://[2606:4700:4700::1111]/path', 'http://[::ffff:1.1.1.1]'])
    assert.equal(await isExposed(url), true, url);
  for (const url of [
    ...['', 'https://1.1.1.1', 'http://127.0.0.1:9000', 'http://[::1]', 'http://localhost:9000'],
    ...['http://10.0.0.3', 'http://192.168.1.2:9000', 'http://[fd00::1]', 'http://none.invalid'],
  ])
    assert.equal(await isExposed(url), false, url);
});
