// The function by which tests list processes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { processes } from '../support/processes.ts';

test('processes() lists a process at every moment of its execve calls', async () => {
  const mark = `mark-${process.pid}`;
  // Each `setpriv` replaces itself by the next program, as at the start of an app's process, but 200 times.
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
