// The envelope around a Worker's log line: its text, and what the entry module added.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLogEnvelope } from '../../../runtime/telemetry/logs/log-envelope.ts';

test('an enveloped text is parsed with its fields', () => {
  assert.deepEqual(readLogEnvelope('\u001ecellar {"trace_id":"x"}\u001e 50% of \u001e it'), {
    text: ' 50% of \u001e it',
    said: { trace_id: 'x' },
  });
  assert.deepEqual(readLogEnvelope('\u001ecellar {}\u001f { a: 1 }'), { text: '{ a: 1 }', said: {} });
  assert.deepEqual(readLogEnvelope('\u001ecellar {}\u001f'), { text: '', said: {} });
});

test('a text that only resembles an envelope is plain', () => {
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
