// The floor of `npm run bench -- hostile`: what the visitors of the same app notice of the same attack when the app is run by
// hand, as workerd behind HAProxy, and pushes are deployed by hand.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { workerdPath } from '../runtime/fleets/start-cell.ts';
import { openControlGroups } from '../runtime/machine/cgroup.ts';
import { giveWay } from '../runtime/machine/give-way.ts';
import { cellOptions, makeRelease } from '../test/support/fleets/release.ts';
import { end, start } from './by-hand.ts';
import { haproxy, startProxy } from './proxies.ts';

/** The app whose visitors are asked, as the Cellar beside it has it. */
const GOOD = new URL('../test/apps/hello/index.js', import.meta.url);
/** What HAProxy answers by itself, as the gateway does: 401 to calls of the API, 404 to hosts that it does not know. */
const RULES = [
  'http-request return status 401 content-type application/json string "{}" if { path_beg /v1/ }',
  'http-request return status 404 content-type application/json string "{}" unless { hdr_beg(host) good.localhost }',
];
/** What a build may have, as Cellar's settings have it. */
const LIMITS = { memoryMb: 2048, tasks: 2048 };
/** How long a release may take to listen, in ms. */
const LISTEN_MS = 10_000;

/** The good app, run by hand. */
export interface ByHand extends AsyncDisposable {
  /** Of HAProxy. */
  port: number;
  /** The words before a build that put it into a control group; empty where this machine has none. */
  group: string[];
  /** Makes an empty repository to push to. @returns its path */
  repository: () => string;
}

/** Starts the good app by hand. @throws {Error} without HAProxy */
export async function startByHand(): Promise<ByHand> {
  await using started = new AsyncDisposableStack();
  const root = mkdtempSync(join(tmpdir(), 'cellar-floor-'));
  started.defer(() => rmSync(root, { recursive: true, force: true }));
  const release = await makeRelease(join(root, 'release'), readFileSync(GOOD, 'utf8'));
  const cell = await start(await cellOptions(root, release.directory));
  started.defer(() => end(cell.child));
  const proxy = started.use(await startProxy(haproxy(RULES), `127.0.0.1:${cell.port}`));
  const groups = openControlGroups('cellar-floor');
  if (typeof groups !== 'string') started.defer(() => groups.close());
  const group = typeof groups === 'string' ? null : await groups.create('build', LIMITS);
  started.defer(() => group?.remove());
  const ends = started.move();
  return {
    port: proxy.port,
    group: group?.enter ?? [],
    repository: () => {
      const path = mkdtempSync(join(root, 'repository-'));
      execFileSync('git', ['init', '--quiet', '--bare', path]);
      return path;
    },
    [Symbol.asyncDispose]: () => ends.disposeAsync(),
  };
}

/**
 * What a push is by hand, for a process that does nothing else: its files are checked out, its script `build` is run, and its
 * `index.js` is started until it listens. What runs of it ends with this process.
 * @param repository where it was pushed to
 * @param group the words before the build
 */
export async function deployByHand(repository: string, group: string[]): Promise<void> {
  const project = mkdtempSync(join(repository, 'project-'));
  const later = await giveWay(true);
  const run = (words: string[]) => endOf(startJob([...later, ...words], project));
  await run(['git', '--git-dir', repository, '--work-tree', project, 'read-tree', '--reset', '-u', 'main']);
  if (existsSync(join(project, 'package.json'))) await run([...group, 'npm', 'run', '--silent', 'build']);
  const config = join(project, 'cell.capnp');
  writeFileSync(
    config,
    `using Workerd = import "/workerd/workerd.capnp";
    const config :Workerd.Config = (
      services = [(name = "app", worker = (modules = [(name = "index.js", esModule = embed "index.js")], compatibilityDate = "2026-10-01"))],
      sockets = [(name = "http", http = (), service = "app", address = "unix:${project}/http.sock")]);`,
  );
  // As the process of an app, and not as the attacker's.
  const words = ['chrt', '--other', '0', workerdPath(), 'serve', '--control-fd=3', config];
  const release = startJob(words, project);
  const listens = once(release.stdio[3] as Readable, 'data').catch(() => {});
  await Promise.race([listens, endOf(release), sleep(LISTEN_MS, undefined, { ref: false })]);
  release.kill('SIGKILL');
  await run(['rm', '-rf', project]);
}

let job: ChildProcess | null = null;
process.once('exit', () => {
  // With all that it has started.
  if (job !== null) process.kill(-job.pid!, 'SIGKILL');
});

/** In a session of its own, as Cellar's builds are: the kernel shares out the processors between sessions, too. */
function startJob(words: string[], cwd: string): ChildProcess {
  job = spawn(words[0]!, words.slice(1), {
    cwd,
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  return job;
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  if (job === child) job = null;
}
