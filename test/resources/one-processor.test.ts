// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { onOneProcessor } from '../../runtime/resources/one-processor.ts';

const processors = (status: string) => /^Cpus_allowed_list:\s*(\S+)$/m.exec(status)![1]!;

test('a command runs on the last processor that this process may use, and no other', (t) => {
  const words = onOneProcessor();
  if (words.length === 0) return t.skip('taskset is not installed');
  const status = execFileSync(words[0]!, [...words.slice(1), 'cat', '/proc/self/status']).toString();
  const last = processors(readFileSync('/proc/self/status', 'utf8')).split(/[,-]/).at(-1);
  assert.equal(processors(status), last);
});
