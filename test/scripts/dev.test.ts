// `npm run dev`, for developers of Cellar: it starts Cellar, reloads saved code, and ends with a signal.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ownPort } from '../support/ports.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ROOT = join(import.meta.dirname, '../..');

test('it starts Cellar, reloads the part that a saved file belongs to, and ends with a signal', async (t) => {
  const child = spawn(process.execPath, ['scripts/dev.ts'], {
    cwd: ROOT,
    env: {
      ...process.env,
      RUNNER_DATA_DIR: join(temporaryDirectory(t), 'data'),
      RUNNER_PORT: String(ownPort()),
      RUNNER_EDGE_PORT: String(ownPort()),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  const saved = join(ROOT, `ui/saved-by-a-test-${process.pid}`);
  t.after(() => {
    child.kill('SIGTERM');
    rmSync(saved, { force: true });
  });
  await eventually(() => / ready api=/.test(printed), 'Cellar is ready');
  writeFileSync(saved, 'no source');
  await eventually(() => /loaded again part=ui /.test(printed), 'the UI was loaded again');
  assert.doesNotMatch(printed, /loaded again part=control/);
  child.kill('SIGTERM');
  assert.deepEqual(await once(child, 'exit'), [0, null]);
});
