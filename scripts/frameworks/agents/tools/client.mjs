// The AI SDK on the `ai` binding: a text, a stream, and a tool that the model calls.
import assert from 'node:assert/strict';
import { get } from './support.mjs';

assert.equal(JSON.parse(await get('/text?prompt=Hello')), 'You said Hello');
assert.equal(await get('/stream?prompt=Hello'), 'You said Hello');
assert.deepEqual(JSON.parse(await get('/tools?prompt=Weather')), [
  { toolName: 'weather', output: 'It rains in Oslo' },
]);
