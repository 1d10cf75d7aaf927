// The host's own log when its output cannot be written.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { SmallDisk } from '../../support/small-disk.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const MODULE = new URL('../../../runtime/log.ts', import.meta.url).href;

/** Runs a program that may call `log` and `tell`. `log` writes to `output`. @returns what `tell` prints, as `told` */
function run(program: string, output: number) {
  const script = `import { log } from ${JSON.stringify(MODULE)}; const tell = (text) => console.error(text); ${program}`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', output, 'pipe'],
    encoding: 'utf8',
    timeout: 120_000,
  });
  return { status, told: stderr.trim() };
}

test('lines that a full disk cannot take are lost; the process lives, and later lines are written again', (t) => {
  const path = join(temporaryDirectory(t), 'disk');
  const disk = SmallDisk.mount(path, 4);
  if (disk === null) return t.skip(SmallDisk.why);
  try {
    const file = join(path, 'log');
    const output = openSync(file, 'a');
    disk.fill();
    const { status, told } = run(
      `import { rmSync } from 'node:fs'; import { setImmediate as turn } from 'node:timers/promises';
       log('info', 'lost'); await turn(); rmSync(${JSON.stringify(join(path, 'filling'))});
       log('info', 'kept'); await turn(); tell('alive');`,
      output,
    );
    closeSync(output);
    assert.deepEqual([status, told], [0, 'alive']);
    const written = readFileSync(file, 'utf8');
    assert.match(written, / kept$/m);
    assert.doesNotMatch(written, /lost/);
  } finally {
    disk[Symbol.dispose]();
  }
});
