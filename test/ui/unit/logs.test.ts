// Log lines: parsing and filters.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isWanted, type LogLine, readLine } from '../../../ui/models/telemetry/log-line.ts';

const line = (more: Partial<LogLine>): LogLine => ({
  id: '1',
  at: '2026-11-22T07:00:00.000Z',
  level: 'info',
  source: 'app',
  text: 'Hello',
  fields: null,
  trace_id: null,
  release: null,
  ...more,
});

test('a JSON line is split into its message and its other fields, any other line is unchanged', () => {
  const fields = { level: 'info', msg: 'done', order: 42, by: '{"a":1}' };
  assert.deepEqual(
    readLine(line({ text: '{"level":"info","msg":"done","order":42,"by":{"a":1}}', fields })),
    {
      message: 'done',
      fields: [
        ['order', '42'],
        ['by', '{"a":1}'],
      ],
    },
  );
  for (const text of ['plain', '{"no":"message"}', '{broken', '{}'])
    assert.deepEqual(readLine(line({ text })), { message: text, fields: [] });
  assert.deepEqual(readLine(line({ text: '{"n":1}', fields: { n: 1 } })), { message: '{"n":1}', fields: [] });
  assert.deepEqual(readLine(line({ fields: { n: 1 } })).fields, [['n', '1']]);
});

test('a filter matches lines by minimum level, request, and a text in the line or its fields', () => {
  const all = { search: '', level: '', trace: '' } as const;
  assert.ok(isWanted(line({}), all));
  assert.ok(isWanted(line({ level: 'error' }), { ...all, level: 'warn' }));
  assert.ok(!isWanted(line({ level: 'info' }), { ...all, level: 'warn' }));
  assert.ok(isWanted(line({}), { ...all, search: 'hELL' }));
  assert.ok(isWanted(line({ fields: { name: 'Ada' } }), { ...all, search: 'ada' }));
  assert.ok(!isWanted(line({}), { ...all, search: 'bye' }));
  assert.ok(!isWanted(line({ trace_id: 'b' }), { ...all, trace: 'a' }));
});
