// Makes one of three hosts fail again and again, in each way that a machine can. Meanwhile clients write, push, deploy, and
// change secrets, apps and accounts, through a load balancer. Reports what was acknowledged and is missing, and how long
// the app `writer` was away.
import { rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { MemoryStore } from '../../test/support/bucket/memory-store.ts';
import { bucketSettings } from '../../test/support/bucket/settings.ts';
import { Cellar } from '../../test/support/e2e/cellar.ts';
import { rpcOf } from '../../test/support/e2e/rpc.ts';
import { Balancer, type Behind } from '../../test/support/hosts/balancer.ts';
import { ownPort, ownPorts } from '../../test/support/ports.ts';
import { controlPlane, descendants, eventually } from '../../test/support/processes.ts';
import { Clients } from './clients.ts';
import { Door } from './door.ts';
import { makeFacts } from './facts.ts';
import { type Cut, Networks } from './networks.ts';

const WORDS = process.argv.slice(2).filter((word) => word !== '--hosts');
const ROUNDS = Number(WORDS[0] ?? 5);
/** Names of the failures; default: all. */
const ONLY = WORDS[1]?.split(',');
const HOSTS = 3;
/** Maximum time before a failure in each round, in ms. */
const LONGEST_LIFE_MS = 4_000;
/** How long a host stays away, in ms: some failures end before the other hosts take its apps, some afterwards. */
const AWAY_MS = [1_000, 8_000, 30_000];
const RECOVERY_MS = 90_000;
const ASK_EVERY_MS = 50;
const NODE = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url));
/** The first number that `watch` writes. All other clients write smaller numbers. */
const WATCH_FROM = 1_000_000;

/** A host, with its own proxy to the bucket. */
interface Member {
  cellar: Cellar;
  door: Door;
}

/** Reaches the hosts through the load balancer, with the secrets that all hosts share. */
class Front extends Cellar {
  readonly #secrets: { token: string; key: string };
  constructor({ token, key }: Cellar, apiPort: number, edgePort: number) {
    super();
    this.#secrets = { token, key };
    this.api = `http://127.0.0.1:${apiPort}`;
    this.edgePort = edgePort;
  }
  override get token(): string {
    return this.#secrets.token;
  }
  override get key(): string {
    return this.#secrets.key;
  }
}

/** The hosts' separate networks; null without root's rights. */
const networks = process.getuid!() === 0 ? new Networks(HOSTS) : null;
const store = await new MemoryStore().start();
const members: Member[] = [];
const behind = new Map<string, Behind>();
const balancer = new Balancer(behind);
const gaps: { name: string; ms: number }[] = [];
let clients: Clients | null = null;
let front: Front | null = null;

try {
  for (let at = 0; at < HOSTS; at++) await add(at);
  const [apiPort, edgePort] = [ownPort(), ownPort()];
  await balancer.listen(apiPort, edgePort);
  front = new Front(members[0]!.cellar, apiPort, edgePort);
  await eventually(() => balancer.ready.length === HOSTS, 'all hosts are ready', RECOVERY_MS);
  clients = new Clients(await makeFacts(front));
  const failures = await failAgainAndAgain(clients, front);
  await clients.end();
  await clients.checkLate();
  console.log(`\nfailures: ${[...failures].map(([name, count]) => `${count} ${name}`).join(', ')}`);
  for (const name of failures.keys()) printGaps(name);
  clients.print();
} finally {
  if (clients === null || clients.problems.length > 0) keepOutput();
  balancer.close();
  await front?.[Symbol.asyncDispose]();
  for (const { cellar, door } of members) {
    thaw(cellar);
    await cellar[Symbol.asyncDispose]();
    door.close();
  }
  await networks?.close();
  await store[Symbol.asyncDispose]();
}
process.exit(clients?.problems.length === 0 ? 0 : 1);

function addressOf(at: number): string {
  return networks?.address(at) ?? `127.0.0.${at + 2}`;
}

async function add(at: number): Promise<void> {
  const place = store.place('chaos/');
  const address = networks?.gateway ?? '127.0.0.1';
  // A host also listens on the port after this one.
  const [port] = ownPorts(2);
  const door = await new Door(Number(new URL(place.endpoint).port)).listen(address);
  const settings = {
    ...bucketSettings({ ...place, endpoint: `http://${address}:${door.port}` }),
    RUNNER_STORAGE: 'bucket',
    RUNNER_MAX_APPS_PER_USER: '100',
    RUNNER_ADDRESS: `${addressOf(at)}:${port}`,
  };
  const cellar = new Cellar(settings, networks?.node(at, NODE));
  members.push({ cellar, door });
  await start(at);
  networks?.relay(at, Number(new URL(cellar.api).port), cellar.edgePort);
}

async function start(at: number): Promise<void> {
  const { cellar } = members[at]!;
  const deadline = performance.now() + RECOVERY_MS;
  for (;;) {
    try {
      await cellar.start();
      break;
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
  }
  behind.set(`host ${at}`, {
    ...(networks && { address: networks.address(at) }),
    apiPort: Number(new URL(cellar.api).port),
    edgePort: cellar.edgePort,
  });
}

/** Makes a host fail in each round, and checks the facts afterwards. @returns the number of failures by name */
async function failAgainAndAgain(clients: Clients, front: Front): Promise<Map<string, number>> {
  const failures: Record<string, (at: number, awayMs: number) => Promise<void>> = {
    killed: async (at, awayMs) => {
      await kill(members[at]!.cellar);
      await sleep(awayMs);
      await start(at);
    },
    lost: async (at, awayMs) => {
      await kill(members[at]!.cellar);
      rmSync(members[at]!.cellar.data, { recursive: true, force: true });
      await sleep(awayMs);
      await start(at);
    },
    stopped: async (at, awayMs) => {
      await members[at]!.cellar.stop();
      await sleep(awayMs);
      await start(at);
    },
    frozen: async (at, awayMs) => {
      freeze(members[at]!.cellar);
      await sleep(awayMs);
      thaw(members[at]!.cellar);
    },
    'cut from the bucket': async (at, awayMs) => {
      members[at]!.door.isOpen = false;
      await sleep(awayMs);
      members[at]!.door.isOpen = true;
    },
    control: async (at) => {
      signal(controlPlane(members[at]!.cellar.pid)!.pid, 'SIGKILL');
      const from = performance.now();
      await eventually(() => answers(front), 'the API answers', RECOVERY_MS);
      console.log(`the API answers again after ${Math.round(performance.now() - from)} ms`);
    },
    ...(networks && {
      'cut from the other hosts': cutFrom(networks, 'the other hosts'),
      'cut from everything': cutFrom(networks, 'everything'),
    }),
  };
  const names = Object.keys(failures).filter((name) => ONLY?.includes(name) ?? true);
  const counts = new Map(names.map((name) => [name, 0]));
  let isEnding = false;
  process.once('SIGUSR2', () => {
    isEnding = true;
    console.log('this is the last round');
  });
  for (let round = 0; round < ROUNDS && !isEnding; round++) {
    const name = names[round % names.length]!;
    const awayMs = AWAY_MS[Math.floor(round / names.length) % AWAY_MS.length]!;
    // In three of four rounds, chooses the host that runs the app `writer`.
    const at = round % 4 === 3 ? Math.floor(Math.random() * HOSTS) : await homeOfWriter(front);
    const when = `round ${round + 1} (host ${at} ${name} for ${awayMs} ms)`;
    await sleep(Math.random() * LONGEST_LIFE_MS);
    const watching = new AbortController();
    const longest = watch(front, watching.signal);
    await failures[name]!(at, awayMs).catch((error: Error) =>
      clients.problems.push(`${when}: ${error.message}`),
    );
    counts.set(name, counts.get(name)! + 1);
    await eventually(() => balancer.ready.length === HOSTS, when, RECOVERY_MS).catch(() =>
      clients.problems.push(`${when}: only ${balancer.ready} are ready`),
    );
    await clients.check(when);
    watching.abort();
    const ms = await longest;
    gaps.push({ name, ms });
    console.log(`${new Date().toISOString()} ${when}: the app was away for at most ${Math.round(ms)} ms`);
  }
  return counts;
}

function cutFrom(networks: Networks, from: Cut): (at: number, awayMs: number) => Promise<void> {
  return async (at, awayMs) => {
    networks.cut(at, from);
    await sleep(awayMs);
    networks.join(at);
  };
}

/** Whether every host answers the API. */
async function answers(front: Front): Promise<boolean> {
  const apis = members.map(({ cellar }, at) =>
    cellar.api.replace('127.0.0.1', networks?.address(at) ?? '127.0.0.1'),
  );
  const asked = apis.map((api) =>
    fetch(`${api}/v1/apps`, {
      headers: { authorization: `Bearer ${front.token}` },
      signal: AbortSignal.timeout(1_000),
    }).then(
      async (answer) => {
        await answer.text();
        return answer.status === 200;
      },
      () => false,
    ),
  );
  return (await Promise.all(asked)).every((isThere) => isThere);
}

/** Writes to the app `writer` until the signal is aborted. @returns the longest time between two successful writes, in ms */
async function watch(front: Front, signal: AbortSignal): Promise<number> {
  let last = performance.now();
  let longest = 0;
  let n = WATCH_FROM;
  while (!signal.aborted) {
    const asked = { method: 'POST', signal: AbortSignal.timeout(5_000) };
    const answer = await front.get('writer', `/do?n=${n++}`, asked).catch(() => null);
    if (answer?.status === 200) {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
    }
    await sleep(ASK_EVERY_MS);
  }
  return longest;
}

/** Returns the index of the host that runs the app `writer`; a random index when the host is unknown. */
async function homeOfWriter(front: Front): Promise<number> {
  const { home } = await rpcOf(front)('apps.get_by_slug', { slug: 'writer' }).catch(() => ({ home: null }));
  const { items = [] } = await rpcOf(front)('hosts.list', {}).catch(() => ({}));
  const address = items.find(({ id }: { id: string }) => id === home?.id)?.address ?? '';
  const at = members.findIndex((_, n) => address.startsWith(`${addressOf(n)}:`));
  return at === -1 ? Math.floor(Math.random() * HOSTS) : at;
}

async function kill(cellar: Cellar): Promise<void> {
  process.kill(cellar.pid, 'SIGSTOP');
  for (let left = descendants(cellar.pid); left.length > 0; left = descendants(cellar.pid)) {
    for (const { pid } of left) signal(pid, 'SIGKILL');
    await sleep(5);
  }
  await cellar.stop('SIGKILL');
}

function freeze(cellar: Cellar): void {
  signal(cellar.pid, 'SIGSTOP');
  for (const { pid } of descendants(cellar.pid)) signal(pid, 'SIGSTOP');
}

function thaw(cellar: Cellar): void {
  try {
    for (const { pid } of descendants(cellar.pid)) signal(pid, 'SIGCONT');
    signal(cellar.pid, 'SIGCONT');
  } catch {
    // The host does not run.
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process has ended by itself.
  }
}

function keepOutput(): void {
  for (const [at, { cellar }] of members.entries()) {
    const kept = `${cellar.directory}-kept.log`;
    writeFileSync(kept, cellar.output);
    console.log(`what host ${at} printed is in ${kept}`);
  }
}

function printGaps(name: string): void {
  const all = gaps.filter((gap) => gap.name === name).map(({ ms }) => ms);
  const sorted = all.sort((a, b) => a - b);
  const seconds = (ms = 0) => `${(ms / 1000).toFixed(1)} s`;
  console.log(
    `${name}: the app was away for ${seconds(sorted[sorted.length >> 1])} (p50), ${seconds(sorted.at(-1))} (longest)`,
  );
}
