// The time of a deploy, from `git push` until the app serves it. Compared with a push of the same change to a bare
// repository over `git http-backend`. The rounds of one run alternate, so that the ratios hold on a busy machine.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { DeployStep } from '../handlers/contract/host/host-calls.ts';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { descendants, eventually } from '../test/support/processes.ts';
import { effort, isQuick } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const ROUNDS = effort(15, 1);
const COLD_ROUNDS = effort(5, 1);
const GUESTBOOK_ROUNDS = effort(5, 1);
const FRAMEWORK_ROUNDS = effort(5, 1);
const LOADED_ROUNDS = effort(10, 1);
const CLIENTS = 4;
/** Programs that each use a core during the deploys. */
const BURNERS = 4;
/** Maximum push-to-live time of first pushes while those programs run, in ms. */
const BUSY_TARGETS = Object.entries({ hello: 5_000, spa: 60_000 }).slice(0, effort(2, 1));
/** Maximum ratio of push-to-live of a one-file Worker to a bare push. */
const TARGET = 5;
/** Maximum ratio of the second push of a framework project to the first. */
const SECOND_TARGET = 0.5;

interface Deploy {
  totalMs: number;
  steps: Record<string, number>;
}

/** Prints medians of push-to-live, its steps, and the number of dropped requests. */
export async function run(): Promise<void> {
  await using cellar = await new Cellar().start();
  await using bare = await startBareRepository(cellar);
  const hello = await app(cellar, 'hello');
  const guestbook = await app(cellar, 'guestbook');
  await push(cellar, hello.work, bare.url);

  const pushes: number[] = [];
  const warm: Deploy[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await hello.change(round);
    pushes.push(await push(cellar, hello.work, bare.url));
    warm.push(await hello.deploy());
  }
  const cold: Deploy[] = [];
  for (let round = 0; round < COLD_ROUNDS; round++) {
    await hello.change(round);
    await endBundler(cellar);
    cold.push(await hello.deploy());
  }
  const large: Deploy[] = [];
  for (let round = 0; round < GUESTBOOK_ROUNDS; round++) {
    await guestbook.change(round);
    large.push(await guestbook.deploy());
  }
  report(median(pushes), { warm, cold, large });
  await reportFramework(cellar);
  await reportLoad(cellar, hello);
  await reportBusy(cellar);
}

/** A Vite project. A quick run uses one with a short install. */
const FRAMEWORK = isQuick ? 'guestbook' : 'spa';
const ENTRIES: Record<string, string> = {
  hello: 'index.js',
  guestbook: 'src/index.ts',
  spa: 'worker/index.ts',
};

/** Makes an app and pushes its sample. `change` commits a change of it, `deploy` pushes that. */
async function app(cellar: Cellar, sample: string, slug = sample) {
  const id = await cellar.create(slug);
  const work = await cellar.checkout(sample);
  const entry = join(work, ENTRIES[sample]!);
  const change = async (round: number) => {
    appendFileSync(entry, `// ${slug} ${round}\n`);
    await cellar.commit(work, `change ${round}`);
  };
  const deploy = async (): Promise<Deploy> => {
    const totalMs = await push(cellar, work, cellar.remote(slug));
    const { items } = (await cellar.call('GET', `/v1/apps/${id}/deploys?limit=1`)).body;
    if (items[0].status !== 'live') throw new Error(`the deploy is ${items[0].status}: ${items[0].error}`);
    const steps = (items[0].steps as DeployStep[]).map(({ name, duration_ms }) => [name, duration_ms ?? 0]);
    return { totalMs, steps: Object.fromEntries(steps) };
  };
  const first = await deploy();
  return { slug, work, first, change, deploy };
}

/** Pushes a Vite project, and again with changed sources, as apps of their own. */
async function reportFramework(cellar: Cellar): Promise<void> {
  const firsts: Deploy[] = [];
  const seconds: Deploy[] = [];
  for (let round = 0; round < FRAMEWORK_ROUNDS; round++) {
    const { first, change, deploy } = await app(cellar, FRAMEWORK, `framework-${round}`);
    await change(round);
    firsts.push(first);
    seconds.push(await deploy());
  }
  const total = (deploys: Deploy[]) => median(deploys.map(({ totalMs }) => totalMs));
  const install = (deploys: Deploy[]) => median(deploys.map(({ steps }) => steps.install ?? 0)).toFixed(0);
  const ratio = total(seconds) / total(firsts);
  console.log(
    `Vite project: first push ${total(firsts).toFixed(0)} ms (install ${install(firsts)}), second ${total(seconds).toFixed(0)} ms ` +
      `(install ${install(seconds)}): ${ratio.toFixed(2)} (target at most ${SECOND_TARGET}: ${ratio <= SECOND_TARGET ? 'met' : 'missed'})`,
  );
}

/** Pushes HEAD to main. @returns the duration in ms */
async function push(cellar: Cellar, work: string, url: string): Promise<number> {
  const from = performance.now();
  const { code, stderr } = await cellar.git(work, 'push', url, 'HEAD:main');
  if (code !== 0) throw new Error(stderr);
  return performance.now() - from;
}

async function endBundler(cellar: Cellar): Promise<void> {
  const find = () =>
    descendants(cellar.pid).filter(({ command }) =>
      command.some((word) => word.endsWith('bundler/helper.ts')),
    );
  for (const { pid } of find()) process.kill(pid, 'SIGKILL');
  await eventually(() => find().length === 0, 'the bundler has ended');
}

function report(bareMs: number, deploys: Record<'warm' | 'cold' | 'large', Deploy[]>): void {
  const rows = {
    'one-file Worker': deploys.warm,
    'the same, bundler cold': deploys.cold,
    guestbook: deploys.large,
  };
  const names = ['checkout', 'install', 'build', 'bundle', 'release', 'start'];
  const cells = (values: number[]) => values.map((ms) => ms.toFixed(0).padStart(9)).join('');
  console.log(`push to live, ms, medians; a push to a bare repository takes ${bareMs.toFixed(0)} ms`);
  console.log(`${''.padEnd(24)}    total${[...names, 'the rest'].map((name) => name.padStart(9)).join('')}`);
  for (const [name, row] of Object.entries(rows)) {
    const total = median(row.map(({ totalMs }) => totalMs));
    const steps = names.map((step) => median(row.map((deploy) => deploy.steps[step] ?? 0)));
    const rest = median(row.map((deploy) => deploy.totalMs - sum(Object.values(deploy.steps))));
    console.log(name.padEnd(24) + cells([total, ...steps, rest]));
  }
  const ratio = (row: Deploy[]) => median(row.map(({ totalMs }) => totalMs)) / bareMs;
  const warm = ratio(deploys.warm);
  console.log(
    `against the bare push: one-file Worker ${warm.toFixed(1)} (target at most ${TARGET}: ${warm <= TARGET ? 'met' : 'missed'}), ` +
      `bundler cold ${ratio(deploys.cold).toFixed(1)}, guestbook ${ratio(deploys.large).toFixed(1)}`,
  );
}

/** Deploys while clients send one request after another, and prints how many failed. */
async function reportLoad(
  cellar: Cellar,
  { slug, change, deploy }: Awaited<ReturnType<typeof app>>,
): Promise<void> {
  let [requests, dropped, longestMs] = [0, 0, 0];
  let stop = false;
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (!stop) {
      const from = performance.now();
      const status = await cellar.get(slug).then(
        (answer) => answer.status,
        () => 0,
      );
      requests++;
      if (status !== 200) dropped++;
      longestMs = Math.max(longestMs, performance.now() - from);
    }
  });
  for (let round = 0; round < LOADED_ROUNDS; round++) {
    await change(round);
    await deploy();
  }
  stop = true;
  await Promise.all(clients);
  console.log(
    `${LOADED_ROUNDS} deploys under load: ${dropped} of ${requests} requests dropped, the longest took ${longestMs.toFixed(0)} ms`,
  );
}

/** Deploys while other programs use all CPU time. */
async function reportBusy(cellar: Cellar): Promise<void> {
  const burners = Array.from({ length: BURNERS }, () =>
    spawn('sh', ['-c', 'while :; do :; done'], { detached: true, stdio: 'ignore' }),
  );
  try {
    for (const [sample, target] of BUSY_TARGETS) {
      const { totalMs } = (await app(cellar, sample, `busy-${sample}`)).first;
      console.log(
        `first push of ${sample} beside ${BURNERS} programs that burn a core each: ${totalMs.toFixed(0)} ms ` +
          `(target at most ${target}: ${totalMs <= target ? 'met' : 'missed'})`,
      );
    }
  } finally {
    for (const burner of burners) burner.kill('SIGKILL');
  }
}

/** Starts a bare repository behind git's own CGI program. */
async function startBareRepository(cellar: Cellar): Promise<{ url: string } & AsyncDisposable> {
  const repository = join(cellar.directory, 'bare.git');
  await cellar.git(cellar.directory, 'init', '--quiet', '--bare', repository);
  writeFileSync(join(repository, 'config'), '[http]\n\treceivepack = true\n', { flag: 'a' });
  const server = createServer((request, response) => backend(repository, request, response)).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    [Symbol.asyncDispose]: async () => {
      server.close().closeAllConnections();
    },
  };
}

function backend(repository: string, request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url!, 'http://localhost');
  const { headers } = request;
  const child = spawn('git', ['http-backend'], {
    env: {
      PATH: process.env.PATH,
      GIT_PROJECT_ROOT: repository,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: url.pathname,
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method,
      CONTENT_TYPE: headers['content-type'],
      CONTENT_LENGTH: headers['content-length'],
      HTTP_CONTENT_ENCODING: headers['content-encoding'] as string | undefined,
      GIT_PROTOCOL: headers['git-protocol'] as string | undefined,
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  request.pipe(child.stdin);
  const parts: Buffer[] = [];
  child.stdout.on('data', (part: Buffer) => parts.push(part));
  child.stdout.on('end', () => {
    const answer = Buffer.concat(parts);
    const end = answer.indexOf('\r\n\r\n');
    for (const line of answer.subarray(0, end).toString('latin1').split('\r\n')) {
      const [name = '', value = ''] = line.split(': ');
      if (name === 'Status') response.statusCode = Number.parseInt(value, 10);
      else response.setHeader(name, value);
    }
    response.end(answer.subarray(end + 4));
  });
}

function sum(values: number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
