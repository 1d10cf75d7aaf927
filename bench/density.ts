// The cost of idle apps. For awake ones: private memory, compared with workerd by hand on the same config. For apps that
// hibernate or sleep: the host's memory, and how long a Cellar with many of them takes until it serves. Arguments such as
// `sleeping` limit the bench to apps in these states.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { workerdPath } from '../runtime/fleets/process/start-cell.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { descendants, eventually } from '../test/support/processes.ts';
import { effort, isQuick, words } from './support/bench-scale.ts';
import { socketFlags } from './support/by-hand.ts';
import { Copies, type State } from './support/copies.ts';
import { median, privateKb } from './support/figures.ts';

const STATES: State[] = ['awake', 'sleeping', 'hibernating'];
const AWAKE = isQuick ? [1] : [10, 100, 300];
const RESTING = isQuick ? [2, 4] : [10, 1_000, 10_000];
const STARTS = effort(3, 1);
/** Time after the start for reconcile and for V8 to collect its garbage, in ms. */
const SETTLE_MS = effort(40_000, 500);
const BY_HAND = effort(5, 1);

interface Figures {
  /** From spawn to serving, in ms: the median of a few starts. */
  readyMs: number;
  /** Private memory of the host's process, in KiB. */
  hostKb: number;
  /** Private memory of the control plane's process, in KiB. */
  controlKb: number;
}

/** Prints each figure with its target, for all states or the given ones. */
export async function run(): Promise<void> {
  const chosen = words.length === 0 ? STATES : STATES.filter((state) => words.includes(state));
  // A quick run leaves out `hibernating`, which is measured like `sleeping`.
  const states = chosen.slice(0, effort(chosen.length, 2));
  await using cellar = await new Cellar({
    RUNNER_FLEET_IDLE_EVICT_S: '3600',
    RUNNER_FLEET_MAX_RSS_MB: '1000000',
  }).start();
  const id = await cellar.deploy('proto', 'guestbook');
  await cellar.get('proto');
  const deployId = (await cellar.app(id)).live_deploy_id;
  const byHandKb = states.includes('awake') ? await measureByHand(cellar, id) : 0;
  await cellar.stop();
  const copies = new Copies(cellar.data, id, deployId);
  for (const state of states) {
    if (state === 'awake') await reportAwake(cellar, copies, byHandKb);
    else await reportResting(cellar, copies, state);
  }
}

/** Measures the private memory of workerd by hand on an app's config, in KiB. All processes run at once. */
async function measureByHand(cellar: Cellar, id: string): Promise<number> {
  const children: ChildProcess[] = [];
  const [config] = globSync(join(cellar.data, 'run', id, 'cell-*', 'cell.capnp'));
  const [release] = globSync(join(cellar.data, 'releases', id, '*'));
  for (let index = 0; index < BY_HAND; index++) {
    const scratch = join(cellar.directory, `by-hand-${index}`);
    for (const disk of ['do', 'kv']) mkdirSync(join(scratch, disk), { recursive: true });
    const args = ['serve', config!, '--experimental', '--control-fd=3'];
    for (const disk of ['do', 'kv']) args.push(`--directory-path=${disk}=${join(scratch, disk)}`);
    args.push(...socketFlags(config!, (name) => `unix:${join(scratch, name)}`));
    const child = spawn(workerdPath(), args, {
      cwd: release,
      env: {},
      stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
    });
    await once(child.stdio[3]!, 'data');
    children.push(child);
  }
  const kb = median(children.map(({ pid }) => privateKb(pid!)));
  for (const child of children) {
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  }
  console.log(`workerd by hand            ${(kb / 1024).toFixed(1)} MiB private`);
  return kb;
}

/** Prints the private memory of awake idle apps, and its ratio to `byHandKb`: workerd by hand with the same config. */
async function reportAwake(cellar: Cellar, copies: Copies, byHandKb: number): Promise<void> {
  for (const count of AWAKE) {
    copies.make(count, 'awake');
    await cellar.start();
    const own = () => descendants(cellar.pid).filter(({ command }) => isCell(command));
    await eventually(() => own().length > count, `${count} apps run`, 300_000);
    const figures = own().map(({ pid }) => privateKb(pid));
    target(`${count} awake / by hand`, median(figures) / byHandKb, 1.1);
    console.log(
      `  each ${(median(figures) / 1024).toFixed(1)} MiB, host ${(privateKb(cellar.pid) / 1024).toFixed(0)} MiB`,
    );
    await cellar.stop();
  }
}

/** Prints the host's memory for apps without a process, and the increase in its start time. */
async function reportResting(
  cellar: Cellar,
  copies: Copies,
  state: 'sleeping' | 'hibernating',
): Promise<void> {
  const figures: Figures[] = [];
  for (const count of RESTING) {
    copies.make(count, state);
    figures.push(await measure(cellar));
    print(`${count} ${state}`, figures.at(-1)!);
  }
  const [few, many] = [figures[0]!, figures.at(-1)!];
  const apps = RESTING.at(-1)! - RESTING[0]!;
  target(`host memory for one ${state}`, (many.hostKb - few.hostKb) / apps, 12, ' KiB');
  console.log(`control plane for one      ${((many.controlKb - few.controlKb) / apps).toFixed(1)} KiB`);
  target(`ready, ${RESTING.at(-1)} / ${RESTING[0]} ${state}`, many.readyMs / few.readyMs, 2);
}

async function measure(cellar: Cellar): Promise<Figures> {
  const starts: number[] = [];
  let figures = { hostKb: 0, controlKb: 0 };
  for (let round = 0; round < STARTS; round++) {
    const from = performance.now();
    await cellar.start();
    starts.push(performance.now() - from);
    if (round === STARTS - 1) {
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
      const control = descendants(cellar.pid).filter(
        ({ command }) => command[0]?.endsWith('workerd') && !isCell(command),
      );
      figures = {
        hostKb: privateKb(cellar.pid),
        controlKb: control.reduce((sum, { pid }) => sum + privateKb(pid), 0),
      };
    }
    await cellar.stop();
  }
  return { readyMs: median(starts), ...figures };
}

function isCell(command: string[]): boolean {
  return command.some((word) => word.includes('/new/http.sock'));
}

function print(name: string, { readyMs, hostKb, controlKb }: Figures): void {
  const memory = `host ${(hostKb / 1024).toFixed(0)} MiB, control plane ${(controlKb / 1024).toFixed(0)} MiB`;
  console.log(`${name.padEnd(26)} ready after ${readyMs.toFixed(0)} ms, ${memory}`);
}

function target(name: string, value: number, most: number, unit = ''): void {
  const verdict = value <= most ? 'met' : 'missed';
  console.log(`${name.padEnd(36)}${value.toFixed(2)}${unit}   target ≤ ${most}${unit}: ${verdict}`);
}
