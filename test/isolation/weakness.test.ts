// Warnings about missing isolation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { warnOfWeakness } from '../../runtime/isolation/weakness.ts';

test('a warning is one short line with the page that says more', (t) => {
  const lines: string[] = [];
  t.mock.method(process.stdout, 'write', (text: string) => lines.push(text) > 0);
  const why = `memory: EACCES\npids: ${'/sys/fs/cgroup'.repeat(40)}`;
  warnOfWeakness('builds see files', why, 'docs/security.md#builds');
  t.mock.restoreAll();
  assert.equal(lines.length, 1);
  assert.match(
    lines[0]!,
    / warn {2}builds see files: deploy only code you trust see=docs\/security\.md#builds why=/,
  );
  assert.ok(lines[0]!.length < 320 && lines[0]!.split('\n').length === 2);
});
