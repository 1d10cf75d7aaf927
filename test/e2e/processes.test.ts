// The tests' own eyes: what they say of processes must be so.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { processes } from '../support/e2e/processes.ts';

test('a process that becomes another program is seen all the while', async () => {
  const mark = `mark-${process.pid}`;
  // As cells start, but many times over: each setpriv becomes the next program.
  const again = Array.from({ length: 200 }, () => ['setpriv', '--no-new-privs', '--']).flat();
  const child = spawn('setpriv', [
    '--no-new-privs',
    '--',
    ...again,
    'sh',
    '-c',
    `read ${mark.replace('-', '_')}`,
    mark,
  ]);
  try {
    await once(child, 'spawn');
    const seen = () => processes().some(({ pid, command }) => pid === child.pid && command.includes(mark));
    while (!seen());
    for (let look = 0; look < 300; look++) assert.ok(seen(), `it was missed at look ${look}`);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});
