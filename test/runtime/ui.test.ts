// The process of the control UI, without a Cellar around it.
import assert from 'node:assert/strict';
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { workerdPath } from '../../runtime/fleets/start-cell.ts';
import { askSocket } from '../../runtime/machine/ask-socket.ts';
import { writeUi } from '../../runtime/ui/files.ts';
import { Ui } from '../../runtime/ui/ui.ts';
import { eventually } from '../support/e2e/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

function uiAt(t: TestContext, workerd = workerdPath()): { ui: Ui; socket: string } {
  const root = temporaryDirectory(t);
  const variables = () => ({
    PUBLIC_UI_URL: 'http://localhost:8787',
    SERVICE_RATE_LIMIT_RPM: '600',
    SERVICE_AUTH_RATE_LIMIT: '600',
  });
  const directory = join(root, 'ui');
  const ui = new Ui(
    { directory, storage: join(root, 'sign-in'), apiSocket: join(root, 'api.sock'), workerd, variables },
    { everyMs: 50, deadlineMs: 2_000, missed: 2 },
  );
  t.after(() => ui.close());
  return { ui, socket: join(directory, 'http.sock') };
}

/** Comes as the gateway does: waits, and is then let through or refused. */
async function visit(ui: Ui): Promise<string> {
  const first = ui.admit();
  if (first.kind !== 'hold') return first.kind;
  await first.ready;
  return ui.admit().kind;
}

test('it is started once for all who wait, and started again when it hangs', async (t) => {
  const { ui, socket } = uiAt(t);
  assert.deepEqual(await Promise.all([visit(ui), visit(ui)]), ['forward', 'forward']);
  const { pid } = ui;
  process.kill(pid!, 'SIGSTOP');
  await eventually(async () => (await visit(ui)) === 'forward' && ui.pid !== pid, 'another process serves');
  const asked = { path: '/session', limitBytes: 1_000, signal: AbortSignal.timeout(10_000) };
  const answers = () =>
    askSocket(socket, asked).then(
      ({ status }) => status === 200,
      () => false,
    );
  await eventually(answers, 'it answers');
});

test('what does not start is refused, and says when it is tried again', async (t) => {
  const { ui } = uiAt(t, '/bin/false');
  const first = ui.admit();
  assert.ok(first.kind === 'hold');
  await first.ready;
  const then = ui.admit();
  assert.ok(then.kind === 'refuse');
  assert.equal(then.status, 503);
  assert.ok(then.retryAfterS! > 0 && then.retryAfterS! <= 5);
  assert.equal(ui.pid, null);
});

test('what was bundled is kept, until its sources differ or some of it is missing', async (t) => {
  const directory = join(temporaryDirectory(t), 'ui');
  const written = () => statSync(join(directory, 'worker.js')).mtimeMs;
  const files = await writeUi(directory);
  const first = written();
  assert.deepEqual(await writeUi(directory), files);
  assert.equal(written(), first);

  const keptPath = join(directory, 'kept.json');
  const kept = JSON.parse(readFileSync(keptPath, 'utf8'));
  writeFileSync(keptPath, JSON.stringify({ ...kept, key: 'of other sources' }));
  assert.deepEqual(await writeUi(directory), files);
  const second = written();
  assert.ok(second > first);
  assert.deepEqual(JSON.parse(readFileSync(keptPath, 'utf8')), kept);

  const packed = Object.keys(files).find((name) => files[name]!.encodings.includes('br'))!;
  rmSync(join(directory, 'files', `${packed}.br`));
  assert.deepEqual(await writeUi(directory), files);
  assert.ok(written() > second);
  assert.ok(statSync(join(directory, 'files', `${packed}.br`)).size > 0);
});
