import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LogFilter } from '../../../runtime/telemetry/logs/log-filter.ts';
import { LEVELS, SOURCES, type Source } from '../../../runtime/telemetry/logs/log-lines.ts';

function passed(filter: string): Record<Source, string> {
  const parsed = LogFilter.parse(filter);
  return Object.fromEntries(
    SOURCES.map((source) => [source, LEVELS.filter((level) => parsed.passes(source, level)).join(' ')]),
  ) as Record<Source, string>;
}
const ALL = 'debug info warn error';

test('the default shows the supervisor’s warnings and all errors', () => {
  assert.deepEqual(passed('error,celld=warn'), {
    app: ALL,
    workerd: 'error',
    build: 'error',
    supervisor: 'warn error',
  });
});

test("a level without a target applies to the other targets, at any position; an app's own lines always pass", () => {
  assert.deepEqual(passed(' build = debug , OFF '), { app: ALL, workerd: '', build: ALL, supervisor: '' });
  assert.deepEqual(passed('celld=trace'), { app: ALL, workerd: 'error', build: 'error', supervisor: ALL });
});

for (const [filter, message] of [
  ['', /"" is neither a level/],
  ['error,', /"" is neither a level/],
  ['loud', /loud is not a level; the levels are off, error/],
  ['celld=', / is not a level/],
  ['celld=warn=info', /"celld=warn=info" is neither a level/],
  ['cell=warn', /no target cell; the targets are celld, workerd, build/],
  ['toString=warn', /no target toString/],
  ['error,warn', /two levels without a target/],
  ['celld=warn,celld=info', /two levels for celld/],
] as const) {
  test(`the filter ${JSON.stringify(filter)} is refused`, () => {
    assert.throws(() => LogFilter.parse(filter), message);
  });
}
