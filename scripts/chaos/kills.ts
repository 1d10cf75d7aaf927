// Kills processes at random moments, while an app writes to all of its storage: the host, the control plane, the app's
// process, the bucket service and readers of storage. With `--bucket` it also kills the bucket proxy, and deletes the app's
// data on the disk. Reports lost writes.
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { layout } from '../../runtime/disk/data-directory.ts';
import { workflowKey } from '../../runtime/fleets/config/workflows.ts';
import { readAlarms } from '../../runtime/fleets/due/alarms.ts';
import { MemoryStore } from '../../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../../test/support/bucket/settings.ts';
import { Cellar } from '../../test/support/e2e/cellar.ts';
import { rpcOf } from '../../test/support/e2e/rpc.ts';
import { cells, controlPlane, descendants, eventually, readers } from '../../test/support/processes.ts';
import { type Kind, WRITER } from './writer.ts';

const IN_BUCKET = process.argv.includes('--bucket');
const WORDS = process.argv.slice(2).filter((word) => word !== '--bucket');
const ROUNDS = Number(WORDS[0] ?? 10);
/** Names of the processes to kill; default: all. */
const ONLY = WORDS[1]?.split(',');
/** Maximum time before the kill of each round, in ms. It is random, so that a kill can interrupt a write anywhere. */
const LONGEST_LIFE_MS = 1_000;
/** Timeout for recovery after a kill, in ms. */
const RECOVERY_MS = 30_000;
/** Timeout for the delivery of all messages, and for the end of all Workflows, after the last kill, in ms. */
const DELIVERED_MS = 120_000;
/** Extra time for unfinished Workflows, in ms: a Workflow that ends within it is late, otherwise it is lost. */
const LATE_MS = 12 * 60_000;
const ANSWER_MS = 5_000;

/** Interval between new instances of the Workflow, in ms: each instance uses memory for some seconds. */
const INSTANCE_EVERY_MS = 100;

const KINDS: Kind[] = ['d1', 'kv', 'r2', 'queue', 'do', 'workflow'];
// With `--bucket`, the cache is in the memory of the app's process, so a kill loses it.
if (!IN_BUCKET) KINDS.push('cache');

const store = IN_BUCKET ? await new MemoryStore().start() : null;
const cellar = new Cellar({
  RUNNER_SNAPSHOT_EVERY_H: '0',
  ...(store && { ...bucketSettings(store.place('chaos/')), RUNNER_STORAGE: 'bucket' }),
});
const acknowledged = Object.fromEntries(KINDS.map((kind) => [kind, new Set()])) as Record<Kind, Set<number>>;
const problems: string[] = [];
const neighbour = { answers: 0, failures: 0 };
let next = 0;
let hostRuns = true;
let hostKills = 0;
let ending = false;

try {
  await cellar.start();
  const id = await cellar.deploy('writer', 'hello', WRITER);
  // The neighbour keeps its data on this machine, even with `--bucket`.
  await cellar.call('POST', '/v1/apps', { slug: 'neighbour', storage: 'local' });
  await cellar.deployAgain('neighbour', 'hello');
  const clients = [
    ...KINDS.map((kind) => whileRunning(() => write(kind), kind === 'workflow' ? INSTANCE_EVERY_MS : 5)),
    whileRunning(askNeighbour),
  ];
  clients.push(whileRunning(() => readDatabase(id)));
  const kills = await killAgainAndAgain(id);
  ending = true;
  await Promise.all(clients);
  for (const kind of KINDS) await check(kind, id);
  if (neighbour.failures > 0)
    problems.push(`the neighbour failed ${neighbour.failures} times while the host ran`);
  print(kills);
} finally {
  ending = true;
  await cellar[Symbol.asyncDispose]();
  await store?.[Symbol.asyncDispose]();
}
process.exitCode = problems.length === 0 ? 0 : 1;

async function whileRunning(once: () => Promise<unknown>, pauseMs = 5): Promise<void> {
  while (!ending) {
    await once().catch(() => {});
    await sleep(pauseMs);
  }
}

/** Writes the next number to one kind of storage. @returns whether the write was acknowledged */
async function write(kind: Kind): Promise<boolean> {
  const n = ++next;
  const init = { method: 'POST', signal: AbortSignal.timeout(ANSWER_MS) };
  const { status } = await cellar.get('writer', `/${kind}?n=${n}`, init);
  if (status === 200) acknowledged[kind].add(n);
  return status === 200;
}

/** Requests another app. Only a kill of the host may make the request fail. */
async function askNeighbour(): Promise<void> {
  const [ranBefore, killsBefore] = [hostRuns, hostKills];
  const answer = await cellar.get('neighbour').catch(() => null);
  if (answer?.status === 200) neighbour.answers += 1;
  else if (ranBefore && hostKills === killsBefore) neighbour.failures += 1;
}

/** Queries the app's database through the API, which starts a reader process. @returns whether that succeeded */
async function readDatabase(id: string): Promise<boolean> {
  const sql = encodeURIComponent('SELECT count(*) FROM written AS a, (SELECT 1 FROM written LIMIT 200) AS b');
  const { status } = await cellar.call('GET', `/v1/apps/${id}/storage/d1/rows?sql=${sql}`);
  return status === 200;
}

/** Kills a process in each round, and waits for the recovery. @returns the number of kills by name */
async function killAgainAndAgain(id: string): Promise<Map<string, number>> {
  const below = (word: string) =>
    descendants(cellar.pid).filter(({ command }) => command.some((part) => part.includes(word)));
  const killHost = async (meanwhile = () => {}) => {
    hostRuns = false;
    hostKills += 1;
    await cellar.stop('SIGKILL');
    meanwhile();
    await cellar.start();
    hostRuns = true;
    return true;
  };
  const data = layout(cellar.data).data(id);
  const ofBucket: Record<string, () => Promise<boolean>> = {
    'bucket proxy': async () => kill(below('bucket/proxy/program.ts').at(-1)?.pid),
    disk: () => killHost(() => rmSync(data, { recursive: true, force: true })),
  };
  const victims: Record<string, () => Promise<boolean>> = {
    host: () => killHost(),
    'control plane': async () => kill(controlPlane(cellar.pid)?.pid),
    cell: async () => kill(cells(id)[0]?.pid),
    'bucket service': async () => kill(below('storage/r2/program.ts').at(-1)?.pid),
    reader: async () => {
      let pid: number | undefined;
      await eventually(() => {
        pid = readers(cellar.pid).at(-1)?.pid;
        return pid !== undefined;
      }, 'there is a reader').catch(() => {});
      return kill(pid);
    },
    ...(IN_BUCKET && ofBucket),
  };
  const names = Object.keys(victims).filter((name) => ONLY?.includes(name) ?? true);
  const kills = new Map(names.map((name) => [name, 0]));
  for (let round = 0; round < ROUNDS; round++) {
    await sleep(Math.random() * LONGEST_LIFE_MS);
    // Kills the processes in turn, so that a few rounds kill each of them.
    const name = names[round % names.length]!;
    if (await victims[name]!()) kills.set(name, kills.get(name)! + 1);
    else problems.push(`round ${round + 1}: there was no ${name} to kill`);
    const begun = performance.now();
    await untilRecovered(id, name, round);
    console.log(`${round + 1}: ${name}, back after ${Math.round(performance.now() - begun)} ms`);
  }
  return kills;
}

function kill(pid: number | undefined): boolean {
  if (pid === undefined) return false;
  try {
    process.kill(pid, 'SIGKILL');
    return true;
  } catch {
    // The process ended by itself just before.
    return false;
  }
}

async function untilRecovered(id: string, victim: string, round: number): Promise<void> {
  const parts: Record<string, () => Promise<boolean>> = {
    ...Object.fromEntries(KINDS.map((kind) => [kind, () => write(kind)])),
    'the API': async () => (await cellar.call('GET', '/v1/apps')).status === 200,
    'a reader': () => readDatabase(id),
    'the neighbour': async () => (await cellar.get('neighbour')).status === 200,
  };
  for (const [name, answers] of Object.entries(parts)) {
    const what = `${name} is back after the ${victim} was killed`;
    await eventually(() => answers().catch(() => false), what, RECOVERY_MS).catch((error: Error) =>
      problems.push(`round ${round + 1}: ${error.message}`),
    );
  }
}

/** Checks that every acknowledged write exists. The queue and Workflows get more time. */
async function check(kind: Kind, id: string): Promise<void> {
  let lost: number[] = [];
  const isWhole = async () => {
    // The cache cannot be listed, so it is asked for every number.
    const { status, text } = await cellar.get('writer', `/${kind}?n=${next}`);
    if (status !== 200) return false;
    const there = new Set(JSON.parse(text) as number[]);
    lost = [...acknowledged[kind]].filter((n) => !there.has(n));
    return lost.length === 0;
  };
  const within = (deadlineMs: number) =>
    eventually(() => isWhole().catch(() => false), kind, deadlineMs).then(
      () => true,
      () => false,
    );
  if (await within(kind === 'queue' || kind === 'workflow' ? DELIVERED_MS : RECOVERY_MS)) return;
  const missing = `${lost.length} of ${acknowledged[kind].size}`;
  if (kind !== 'workflow') {
    problems.push(`${kind}: ${missing} acknowledged writes are lost (${lost.slice(0, 10)})`);
    return;
  }
  problems.push(`workflow: ${missing} have not ended ${DELIVERED_MS / 1_000} s after the last kill`);
  await showInstances(id, lost.slice(0, 10));
  const begun = performance.now();
  const ended = await within(LATE_MS);
  problems.push(
    ended
      ? `workflow: they were late: all ended ${Math.round((performance.now() - begun) / 1_000)} s later`
      : `workflow: ${lost.length} are lost (${lost.slice(0, 10)})`,
  );
}

/** Prints all data of some instances of the Workflow, and keeps a copy of the app's data. */
async function showInstances(id: string, numbers: number[]): Promise<void> {
  const kept = `${cellar.directory}-kept`;
  const data = layout(cellar.data).data(id);
  cpSync(data, kept, { recursive: true });
  const named = [join(data, 'do', workflowKey('flow'), 'metadata.sqlite')];
  const alarms = await readAlarms(
    { earliest: [], named, before: Number.POSITIVE_INFINITY },
    {
      owner: 'chaos',
      user: null,
      scratch: join(kept, 'alarms-read'),
      signal: AbortSignal.timeout(RECOVERY_MS),
    },
  ).then(({ alarms }) => alarms[0]!);
  const said = cellar.output.split('\n');
  for (const instance of numbers.map((n) => `n${n}`)) {
    const found = await rpcOf(cellar)('workflows.instances.get', { id, workflow: 'flow', instance });
    const time = alarms.find(({ name }) => name === instance)?.time;
    console.log(`${instance}: ${JSON.stringify(found)}`);
    console.log(`  its alarm: ${time ? new Date(time).toISOString() : 'not among the last 1,000'}`);
    for (const line of said.filter((line) => line.includes(instance))) console.log(`  ${line}`);
  }
  console.log(`what was on disk then is in ${kept}`);
}

function print(kills: Map<string, number>): void {
  console.log(`\nkilled: ${[...kills].map(([name, count]) => `${count} ${name}`).join(', ')}`);
  console.log(`acknowledged: ${KINDS.map((kind) => `${acknowledged[kind].size} ${kind}`).join(', ')}`);
  console.log(`the neighbour answered ${neighbour.answers} times`);
  console.log(problems.length === 0 ? 'nothing is lost, nothing is stuck' : problems.join('\n'));
}
