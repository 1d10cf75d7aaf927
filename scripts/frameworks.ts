// Deploys a new project of each framework to a real Cellar, and checks its answers: `npm run frameworks`. Arguments select
// the projects whose name contains one of them: `npm run frameworks -- astro hono`. `--rest` skips projects that succeeded
// in an earlier run. Needs the npm registry. Projects with `public:` in their name are public repositories: they need the
// Git host as well, or `url.<base>.insteadOf` in git's settings. Those with `agents:` are agents, MCP servers and AI chats:
// this script starts an AI server and a mail server for them.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { dirname, join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { agents } from './frameworks/agents.ts';
import { generated } from './frameworks/generated.ts';
import { type FrameworkProject, MAX_PROJECTS } from './frameworks/project.ts';
import { publicProjects } from './frameworks/public.ts';
import { commitTried, digestOf, type Outcome, printTable, record, recorded } from './frameworks/results.ts';
import { type Services, startServices } from './frameworks/services.ts';
import { small } from './frameworks/small.ts';
import { written } from './frameworks/written.ts';

const projects = [...generated, ...written, ...small, ...agents, ...publicProjects];

/** Timeout of each command, in ms. */
const COMMAND_TIMEOUT_MS = 5 * 60_000;
const ANSWER_TIMEOUT_MS = 15_000;
const MAX_REDIRECTS = 5;
/** Module for `node --import` that resolves names below `localhost`. */
const LOCALHOST = join(import.meta.dirname, 'frameworks/agents/localhost.mjs');
/** Timeout of a deploy, in ms. A deploy may continue after its push has ended. */
const DEPLOY_TIMEOUT_MS = 45 * 60_000;
/** Maximum lines shown from the end of an error. */
const EXPLANATION_LINES = 30;
/** Commands that create a lock file without installing. */
const LOCK: Record<FrameworkProject['manager'], string> = {
  npm: 'npm install --package-lock-only --no-audit --no-fund && npm ci --dry-run --no-audit --no-fund',
  pnpm: 'npm exec --yes -- pnpm@10 install --lockfile-only',
  yarn: 'npm exec --yes -- @yarnpkg/cli-dist@4 install --mode=update-lockfile',
  bun: 'npm exec --yes -- bun@1 install --lockfile-only',
  none: 'true',
};

const names = process.argv.slice(2).map((word) => word.toLowerCase());
const isRest = names.includes('--rest');
const words = names.filter((word) => word !== '--rest');
const succeeded = recorded(projects).flatMap(({ name, fault }) => (fault === null ? [name] : []));
const chosen = projects.filter(
  ({ name }) =>
    (words.length === 0 || words.some((word) => name.toLowerCase().includes(word))) &&
    !(isRest && succeeded.includes(name)),
);
const commit = commitTried();
let cellar: Cellar;
let isAllWell = true;
const hasClient = (project: FrameworkProject) => project.client !== undefined;
await tryAll(chosen.filter((project) => !hasClient(project)));
if (chosen.some(hasClient)) {
  const services = await startServices();
  await tryAll(chosen.filter(hasClient), services);
  await services.close();
}
printTable(projects);
process.exitCode = isAllWell ? 0 : 1;

/** Tries projects one after another in one new Cellar. @param services for projects with a client */
async function tryAll(group: FrameworkProject[], services?: Services): Promise<void> {
  cellar = new Cellar({ RUNNER_MAX_APPS_PER_USER: String(MAX_PROJECTS), ...services?.settings });
  try {
    if (group.length > 0) await cellar.start();
    for (const [i, project] of group.entries()) {
      console.log(`\n${i + 1} of ${group.length}: ${project.name}`);
      const outcome = await tryProject(project, `app-${i}`, services);
      record(outcome);
      isAllWell &&= outcome.fault === null;
    }
  } finally {
    await cellar[Symbol.asyncDispose]();
  }
}

/** Generates, pushes and checks one project. Returns a failure in the outcome. */
async function tryProject(
  project: FrameworkProject,
  slug: string,
  services: Services | undefined,
): Promise<Outcome> {
  const { name, generator = 'by hand', manager, settings, refused } = project;
  const isRefused = refused !== undefined;
  const outcome: Outcome = {
    name,
    digest: digestOf(project),
    commit,
    generated: generator,
    lockFile: manager,
    generateMs: 0,
    pushMs: 0,
    steps: {},
    fault: null,
    isRefused,
  };
  const started = performance.now();
  const parent = join(cellar.directory, slug);
  const directory = join(parent, 'app');
  mkdirSync(parent);
  try {
    Object.assign(outcome, await generate(project, parent));
    outcome.generateMs = Math.round(performance.now() - started);
    console.log(`  generated in ${(outcome.generateMs / 1000).toFixed(1)} s`);
    const id = await cellar.create(slug);
    if (settings) {
      const call = { jsonrpc: '2.0', id: 1, method: 'builds.set', params: { id, ...settings } };
      const { body } = await cellar.call('POST', '/rpc', call);
      if (body.error) throw new Error(JSON.stringify(body.error));
    }
    await cellar.git(directory, 'init', '--quiet', '--initial-branch=main');
    await cellar.commit(directory, 'A new project');
    const began = performance.now();
    const { stderr } = await cellar.push(directory, slug);
    if (stderr.includes('error: failed to push')) throw new Error(stderr);
    const { status, log, steps } = await untilDeployed(id);
    outcome.pushMs = Math.round(performance.now() - began);
    outcome.steps = steps;
    if (refused) {
      if (refused.test(log)) return outcome;
      throw new Error(`the push did not say ${refused}:\n${log}`);
    }
    for (const [line] of stderr.matchAll(
      /^remote: (?!.*Progress)(▸|\S+: |static site: |single-page app: ).*\S/gm,
    ))
      console.log(`  ${line}`);
    if (status !== 'live') throw new Error(`the deploy ended with\n${log}`);
    await check(project, slug);
    if (services) await useApp(project.client!, directory, slug, id, services);
    console.log(`  serves, ${(outcome.pushMs / 1000).toFixed(1)} s after the push`);
  } catch (error) {
    outcome.fault = lastLines((error as Error).message);
    console.log(`  ${outcome.fault.replaceAll('\n', '\n  ')}`);
  } finally {
    rmSync(parent, { recursive: true, force: true });
  }
  return outcome;
}

/**
 * Waits for the end of a deploy, which may outlive its push. Returns its status, its log, and its steps' durations in ms.
 * @throws on a timeout
 */
async function untilDeployed(id: string): Promise<{ status: string; log: string } & Pick<Outcome, 'steps'>> {
  const ended = ['live', 'failed'];
  const until = performance.now() + DEPLOY_TIMEOUT_MS;
  for (;;) {
    const [deploy] = (await cellar.call('GET', `/v1/apps/${id}/deploys`)).body.items;
    if (deploy !== undefined && ended.includes(deploy.status)) {
      const { log } = (await cellar.call('GET', `/v1/apps/${id}/deploys/${deploy.id}/log`)).body;
      const steps = deploy.steps.map((step: { name: string; duration_ms: number | null }) => [
        step.name,
        step.duration_ms ?? 0,
      ]);
      return { status: deploy.status, log, steps: Object.fromEntries(steps) };
    }
    if (performance.now() > until) throw new Error('the deploy does not end');
    await setTimeout(1000);
  }
}

/** Creates the project in `<parent>/app`, with a lock file. Returns the generator, and the lock file's package manager. */
async function generate(
  project: FrameworkProject,
  parent: string,
): Promise<Pick<Outcome, 'generated' | 'lockFile'>> {
  const { repository, generator, words, byHand, afterwards = [], files = {}, manager } = project;
  const directory = join(parent, 'app');
  if (repository !== undefined) {
    const { url, commit } = repository;
    await run(parent, `git clone --quiet --no-checkout ${url} app`);
    // Starts a new history, because a push of the old one may need large files that are missing.
    const fresh = 'rm -r .git && git init --quiet --initial-branch=main && git add --force --all';
    await run(directory, `git checkout --quiet ${commit} && ${fresh}`);
    return { generated: `commit ${commit.slice(0, 8)}`, lockFile: 'as it is' };
  }
  if (generator === undefined) {
    writeFiles(directory, byHand!);
    return { generated: 'by hand', lockFile: await lock(manager, directory) };
  }
  const version = (await run(parent, `npm view ${generator} version`)).trim();
  let how = `${generator} ${version}`;
  try {
    await run(parent, `npm exec --yes -- ${generator}@${version} ${words}`);
    if (!existsSync(directory)) throw new Error(`${generator} made no project`);
  } catch (error) {
    if (byHand === undefined || (await reachesGitHub())) throw error;
    how += ' cannot reach GitHub: files by hand';
    rmSync(directory, { recursive: true, force: true });
    writeFiles(directory, byHand);
    await run(directory, 'npm install --no-audit --no-fund');
  }
  for (const step of afterwards) await run(directory, step);
  writeFiles(directory, files);
  if (manager !== 'npm') {
    for (const path of ['node_modules', 'package-lock.json'])
      rmSync(join(directory, path), { recursive: true, force: true });
  }
  return { generated: how, lockFile: await lock(manager, directory) };
}

/** Creates a lock file, as the author's first install does. Returns its package manager. */
async function lock(manager: FrameworkProject['manager'], directory: string): Promise<string> {
  if (manager === 'none' || !existsSync(join(directory, 'package.json'))) return 'none';
  try {
    await run(directory, LOCK[manager]);
    return manager;
  } catch (error) {
    // npm creates lock files that it then rejects, when the registry lacks a package for another platform.
    if (manager !== 'npm' || !(error as Error).message.includes('from lock file')) throw error;
    rmSync(join(directory, 'package-lock.json'), { force: true });
    return 'none: npm refuses its own';
  }
}

/** Runs all checks of a project against the deployed app. */
async function check({ checks, assets }: FrameworkProject, slug: string): Promise<void> {
  for (const { path, status = 200, text, byScript } of checks) {
    const answer = byScript ? await cellar.get(slug, path) : await navigate(slug, path);
    if (answer.status !== status || !text.test(answer.text))
      throw new Error(
        `${path} answered ${answer.status}, not ${status} with ${text}:\n${answer.text.slice(0, 500)}`,
      );
  }
  if (!assets) return;
  const { text } = await navigate(slug, '/');
  const paths = [...text.matchAll(/(?:src|href)="(?!\w+:|\/\/)\.?\/?([^"]+\.(?:js|css))"/g)].map(
    ([, path]) => `/${path}`,
  );
  if (paths.length === 0)
    throw new Error(`the page at / names no script or style sheet:\n${text.slice(0, 500)}`);
  for (const path of paths) {
    const { status, headers } = await cellar.get(slug, path);
    if (status !== 200 || !/javascript|css/.test(headers.get('content-type') ?? ''))
      throw new Error(`${path} answered ${status}, ${headers.get('content-type')}`);
  }
}

/** Runs the client of a project against its app, with the project's packages. The app receives e-mails to its hostname. */
async function useApp(
  client: string,
  directory: string,
  slug: string,
  id: string,
  services: Services,
): Promise<void> {
  const params = { id, address: `*@${slug}.localhost` };
  const call = { jsonrpc: '2.0', id: 1, method: 'mail.routes.set', params };
  const { body } = await cellar.call('POST', '/rpc', call);
  if (body.error) throw new Error(JSON.stringify(body.error));
  await run(directory, 'npm install --no-audit --no-fund --ignore-scripts');
  await run(directory, `node --import ${LOCALHOST} ${client}`, {
    APP: `http://${slug}.localhost:${cellar.edgePort}`,
    APP_ID: id,
    CELLAR_API: cellar.api,
    CELLAR_TOKEN: cellar.token,
    ...services.environment,
  });
}

/** Requests a page like a browser's navigation, and follows redirects. */
async function navigate(slug: string, path: string): Promise<{ status: number; text: string }> {
  const page = new URL(path, `http://${slug}.localhost`);
  let answer = await visit(page);
  for (let i = 0; answer.location !== undefined && i < MAX_REDIRECTS; i++)
    answer = await visit(new URL(answer.location, page));
  return answer;
}

/** Sends a GET like a browser's navigation. Uses `http`, because `fetch` cannot send `sec-fetch-mode: navigate`. */
function visit({
  host,
  pathname,
  search,
}: URL): Promise<{ status: number; text: string; location: string | undefined }> {
  return new Promise((resolve, reject) => {
    const request = get({
      host: '127.0.0.1',
      port: cellar.edgePort,
      path: pathname + search,
      headers: { host, accept: 'text/html', 'sec-fetch-mode': 'navigate' },
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    request.on('error', reject);
    request.on('response', async (response) => {
      try {
        const { statusCode: status, headers } = response;
        resolve({ status: status!, text: await readText(response), location: headers.location });
      } catch (error) {
        reject(error);
      }
    });
  });
}

async function reachesGitHub(): Promise<boolean> {
  return fetch('https://api.github.com', { signal: AbortSignal.timeout(10_000) }).then(
    (response) => response.ok,
    () => false,
  );
}

/** Runs a command line non-interactively with Cellar's Node, and returns its output. */
function run(cwd: string, command: string, more: Record<string, string> = {}): Promise<string> {
  const own = Object.entries(process.env).filter(
    // Leaves out the variables about Cellar that `npm run` adds, because generators would use them.
    ([name]) => !/^npm_(?!config_(registry|cafile|cache|userconfig)$)|^INIT_CWD$/.test(name),
  );
  const env = {
    ...Object.fromEntries(own),
    PATH: `${dirname(process.execPath)}:${process.env.PATH}`,
    CI: 'true',
    NO_COLOR: '1',
    DO_NOT_TRACK: '1',
    ASTRO_TELEMETRY_DISABLED: '1',
    CREATE_CLOUDFLARE_TELEMETRY_DISABLED: '1',
    WRANGLER_SEND_METRICS: 'false',
    ...more,
  };
  return new Promise((resolve, reject) => {
    const child = execFile(
      'sh',
      ['-c', command],
      { cwd, env, timeout: COMMAND_TIMEOUT_MS, maxBuffer: 64 * 2 ** 20 },
      (error, stdout, stderr) => {
        if (error) reject(new Error(`\`${command}\` failed:\n${stdout}${stderr}`));
        else resolve(stdout);
      },
    );
    child.stdin!.end();
  });
}

function writeFiles(directory: string, files: Record<string, string>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), content);
  }
}

function lastLines(text: string): string {
  return text.trim().split('\n').slice(-EXPLANATION_LINES).join('\n');
}
