// The three starts that the wake bench compares, each up to the first 200: `workerd serve` by hand, an app that hibernated,
// and one that sleeps. Each has its own copy of the storage.
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, globSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';
import { Cellar } from '../../test/support/e2e/cellar.ts';
import { socketFlags } from './by-hand.ts';
import type { Answer, Order, Steps } from './wake-host.ts';

/** Timeout until the first answer with status 200, in ms. */
const READY_MS = 60_000;
const POLL_MS = 1;

/** A way to start a stopped app. */
export interface Way {
  /** Starts the app, by a request or by hand. @returns the time to the first 200, in ms */
  wake: () => Promise<number>;
  /** Stops the app. */
  rest: () => Promise<void>;
}

/** The deployed app: a release with its config, and storage to copy. */
export interface Deployed {
  release: string;
  data: string;
  config: string;
}

/** Starts workerd as in a shell: nothing reports when it is ready, so it is polled until it answers. */
export function byHand({ release, data, config }: Deployed, directory: string): Way {
  cpSync(data, directory, { recursive: true });
  const args = ['serve', config, '--experimental'];
  for (const disk of ['do', 'kv']) args.push(`--directory-path=${disk}=${join(directory, disk)}`);
  const socketFile = (name: string) => join(directory, `${name}.sock`);
  args.push(...socketFlags(config, (name) => `unix:${socketFile(name)}`));
  let child: ChildProcess;
  const wake = async () => {
    const begun = performance.now();
    child = spawn(workerdPath(), args, { cwd: release, env: {}, stdio: 'ignore' });
    for (;;) {
      const answered = await get({ socketPath: socketFile('http') }).then(
        () => true,
        () => false,
      );
      const elapsed = performance.now() - begun;
      if (answered) return elapsed;
      if (elapsed > READY_MS) throw new Error(`no answer within ${READY_MS / 1000} s`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  };
  const rest = async () => {
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
    for (const file of globSync(socketFile('*'))) rmSync(file);
  };
  return { wake, rest };
}

/** Hibernated apps in a host of their own. All of them `rest` together. */
export interface HibernatingHost extends AsyncDisposable {
  apps: Way[];
  /** Steps of the first app's last wake. */
  steps: () => Promise<Steps>;
}

export async function hibernatingHost(
  { release, data }: Deployed,
  directory: string,
  count: number,
): Promise<HibernatingHost> {
  mkdirSync(directory);
  // The host expects the release there.
  symlinkSync(release, join(directory, 'release'));
  for (let index = 0; index < count; index++)
    cpSync(data, join(directory, `${index}-data`), { recursive: true });
  const child = fork(join(import.meta.dirname, 'wake-host.ts'), [directory, String(count)]);
  const answered = async () => ((await once(child, 'message')) as [Answer])[0];
  const order = (what: Order) => {
    const next = answered();
    child.send(what);
    return next;
  };
  const { port } = (await answered()) as { port: number };
  // Only one call runs at a time; concurrent callers share it.
  let resting: Promise<unknown> | null = null;
  const rest = async () => {
    resting ??= order('hibernate');
    await resting;
    resting = null;
  };
  return {
    apps: Array.from({ length: count }, (_, index) => ({
      wake: () => timeOf(() => get({ port, host: String(index) })),
      rest,
    })),
    steps: async () => ((await order('steps')) as { steps: Steps[] }).steps[0]!,
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}

/** A whole Cellar with sleeping guestbooks. */
export interface SleepingHost extends AsyncDisposable {
  apps: Way[];
  /** Returns the deployed files of the first app. Copy them while it sleeps. */
  deployed: () => Deployed;
  /** Deploys another guestbook. */
  add: () => Promise<void>;
}

/** Starts a Cellar with one guestbook, pushed and asleep. */
export async function sleepingHost(mostApps: number): Promise<SleepingHost> {
  const cellar = await new Cellar({
    RUNNER_MAX_APPS_PER_USER: String(mostApps),
  }).start();
  const work = await cellar.checkout('guestbook');
  const apps: SleepingHost['apps'] = [];
  let first = { id: '', deployId: '' };
  const add = async () => {
    const slug = `guestbook-${apps.length}`;
    const id = await cellar.create(slug);
    const { code, stderr } = await cellar.push(work, slug);
    if (code !== 0) throw new Error(stderr);
    const path = `/v1/apps/${id}`;
    const rest = async () => {
      const { status, body } = await cellar.call('POST', `${path}/sleep`);
      if (status !== 200) throw new Error(`sleep answered ${status}: ${JSON.stringify(body)}`);
    };
    const wake = () => timeOf(() => get({ port: cellar.edgePort, host: `${slug}.localhost` }));
    if (apps.length === 0)
      first = { id, deployId: (await cellar.call('GET', path)).body.live_deploy_id as string };
    await rest();
    apps.push({ wake, rest });
  };
  await add();
  return {
    apps,
    add,
    deployed: () => {
      const run = join(cellar.data, 'run', first.id);
      const files = readdirSync(run).find((name) => name.startsWith(`cell-${first.deployId}`))!;
      return {
        release: join(cellar.data, 'releases', first.id, first.deployId),
        data: join(cellar.data, 'data', first.id),
        config: join(run, files, 'cell.capnp'),
      };
    },
    [Symbol.asyncDispose]: () => cellar[Symbol.asyncDispose](),
  };
}

/** Sends one request on a new connection. @throws {Error} when the answer is no 200 */
function get(to: { port: number; host: string } | { socketPath: string }): Promise<void> {
  const address = 'port' in to ? { port: to.port, headers: { host: to.host } } : to;
  return new Promise((resolve, reject) => {
    const sent = request({ ...address, path: '/', agent: false, timeout: READY_MS }, (response) => {
      response.resume();
      response.once('end', () =>
        response.statusCode === 200 ? resolve() : reject(new Error(`answered ${response.statusCode}`)),
      );
    });
    sent.once('error', reject);
    sent.end();
  });
}

async function timeOf(work: () => Promise<void>): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}
