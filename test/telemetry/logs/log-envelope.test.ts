// The text of a Worker's log line, and what the entry said with it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLogEnvelope } from '../../../runtime/telemetry/logs/log-envelope.ts';

test('a marked text is read with what was said of it', () => {
  assert.deepEqual(readLogEnvelope('\u001ecellar {"trace_id":"x"}\u001e 50% of \u001e it'), {
    text: ' 50% of \u001e it',
    said: { trace_id: 'x' },
  });
  assert.deepEqual(readLogEnvelope('\u001ecellar {}\u001f { a: 1 }'), { text: '{ a: 1 }', said: {} });
  assert.deepEqual(readLogEnvelope('\u001ecellar {}\u001f'), { text: '', said: {} });
});

test('what only looks like a marked text is none', () => {
  for (const message of [
    'hello',
    '{"trace_id":"x"}',
    '\u001ecellar {"trace_id":"x"}',
    '\u001ecellar {\u001e text',
    '\u001ecellar [1]\u001etext',
    '\u001ecellar \u001e',
    ' \u001ecellar {}\u001e',
    '\u001ecellar null\u001etext',
  ])
    assert.equal(readLogEnvelope(message), null);
});
