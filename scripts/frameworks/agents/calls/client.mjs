// A Worker calls agents by their names, and an agent calls others.
import assert from 'node:assert/strict';
import { get } from './support.mjs';

const answer = JSON.parse(await get('/'));
assert.deepEqual(
  answer.map(({ text }) => text),
  ['cellar greets Ann', 'cellar greets Bob', 'cellar greets Ann'],
);
assert.deepEqual([answer[0].times + answer[2].times, answer[0].at], [3, '1970-01-01T00:00:00.000Z']);
const posted = JSON.parse(await get('/person/Zoë', { method: 'POST', body: 'hello' }));
assert.deepEqual([posted.method, posted.body], ['POST', 'hello']);
