// The process of the control UI, without a Cellar around it.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { ROOT_PAGES } from '../../bundler/modules/docs.ts';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { askSocket } from '../../runtime/sockets/ask-socket.ts';
import { bundle, writeUi } from '../../runtime/ui/files.ts';
import { Ui } from '../../runtime/ui/ui.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

function uiAt(t: TestContext, workerd = workerdPath(), Made = Ui): { ui: Ui; socket: string } {
  const root = temporaryDirectory(t);
  const variables = () => ({
    PUBLIC_UI_URL: 'http://localhost:8787',
    SERVICE_RATE_LIMIT_RPM: '600',
    SERVICE_AUTH_RATE_LIMIT: '600',
    OIDC_URL: '',
    OIDC_REQUIRED: 'off',
  });
  const directory = join(root, 'ui');
  const ui = new Made(
    {
      directory,
      databaseSocket: join(root, 'database.sock'),
      apiSocket: join(root, 'api.sock'),
      isConnected: false,
      workerd,
      variables,
    },
    { everyMs: 50, deadlineMs: 2_000, missed: 2 },
  );
  t.after(() => ui.close());
  return { ui, socket: join(directory, 'http.sock') };
}

/** Visits as the gateway does: waits, and is then admitted or refused. */
async function visit(ui: Ui): Promise<string> {
  const first = ui.admit();
  if (first.kind !== 'hold') return first.kind;
  await first.ready;
  return ui.admit().kind;
}

test('it is started once for all waiting visitors, and restarted when it hangs', async (t) => {
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

test('visits to a UI that does not start are refused with the time of the next attempt', async (t) => {
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

test('a build error of the UI names its place, and the previous UI keeps serving', async (t) => {
  const copy = temporaryDirectory(t);
  const parts = [
    'ui',
    'client',
    'handlers',
    'sqlite',
    'bundler',
    'runtime',
    'docs',
    ...ROOT_PAGES,
    'package.json',
    'package-lock.json',
  ];
  for (const part of parts) cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  const ofCopy: typeof import('../../runtime/ui/ui.ts') = await import(join(copy, 'runtime/ui/ui.ts'));
  const { ui } = uiAt(t, workerdPath(), ofCopy.Ui);
  assert.equal(await visit(ui), 'forward');
  const { pid } = ui;
  const screen = join(copy, 'ui/screens/overview/apps.tsx');
  const source = readFileSync(screen, 'utf8');
  writeFileSync(screen, `const = 1;\n${source}`);
  await assert.rejects(ui.reload(), /ui\/screens\/overview\/apps\.tsx:1:6: ERROR: Expected identifier/);
  assert.deepEqual([await visit(ui), ui.pid], ['forward', pid]);
  writeFileSync(screen, `${source}\nconsole.log('mended');\n`);
  const reloaded = ui.reload();
  assert.equal(await visit(ui), 'forward');
  await reloaded;
  assert.equal(await visit(ui), 'forward');
  assert.notEqual(ui.pid, pid);
});

test('a bundle is reused until its sources differ or a part of it is missing', async (t) => {
  const directory = join(temporaryDirectory(t), 'ui');
  const written = () => statSync(join(directory, 'worker.js')).mtimeMs;
  // Bundled only once, because another test may save a file beside the sources meanwhile.
  const bundled = await bundle();
  const files = await writeUi(directory, bundled);
  const first = written();
  assert.deepEqual(await writeUi(directory, bundled), files);
  assert.equal(written(), first);

  const keptPath = join(directory, 'kept.json');
  const kept = JSON.parse(readFileSync(keptPath, 'utf8'));
  writeFileSync(keptPath, JSON.stringify({ ...kept, key: 'of other sources' }));
  assert.deepEqual(await writeUi(directory, bundled), files);
  const second = written();
  assert.ok(second > first);
  assert.deepEqual(JSON.parse(readFileSync(keptPath, 'utf8')), kept);

  const packed = Object.keys(files).find((name) => files[name]!.encodings.includes('br'))!;
  rmSync(join(directory, 'files', `${packed}.br`));
  assert.deepEqual(await writeUi(directory, bundled), files);
  assert.ok(written() > second);
  assert.ok(statSync(join(directory, 'files', `${packed}.br`)).size > 0);
});
