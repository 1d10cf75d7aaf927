// Bundles small Workers with `wrangler deploy --dry-run` and as a push does, runs both with Miniflare, and compares their
// answers: `npm run differential`. `npm run differential -- json wasm` selects Workers whose name contains one of the words.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import type { Module } from '../bundler/release.ts';
import { makeWorktrees } from '../test/support/bundler/worktree.ts';
import { type Case, cases } from './differential/cases.ts';

/** A Worker in Miniflare's format, or the error that bundling it has thrown. */
type Made = Record<string, unknown> | Error;

const WRANGLER_TIMEOUT_MS = 120_000;
const ANSWER_TIMEOUT_MS = 15_000;
const TYPES: Record<Module['type'], string> = {
  esm: 'ESModule',
  commonjs: 'CommonJS',
  text: 'Text',
  data: 'Data',
  wasm: 'CompiledWasm',
  json: 'Json',
};
/** Miniflare's types of modules, by the content types that Wrangler gives them. */
const UPLOADED: Record<string, string> = {
  'application/javascript+module': 'ESModule',
  'application/javascript': 'CommonJS',
  'application/wasm': 'CompiledWasm',
  'application/octet-stream': 'Data',
  'text/plain': 'Text',
};

const worktrees = makeWorktrees();
const words = process.argv.slice(2).map((word) => word.toLowerCase());
const chosen = cases.filter(
  ({ name }) => words.length === 0 || words.some((word) => name.toLowerCase().includes(word)),
);
let same = 0;
try {
  for (const each of chosen) {
    const [theirs, ours] = await Promise.all([byWrangler(each), byCellar(each)]);
    const [expected, actual] = [await answerOf(theirs, each), await answerOf(ours, each)];
    const isSame = expected === actual;
    if (isSame) same++;
    console.log(`${isSame ? '✔' : '✖'} ${each.name}: ${expected}`);
    if (!isSame) console.log(`    here: ${actual}\n${explain(theirs)}${explain(ours)}`);
  }
} finally {
  worktrees.remove();
}
console.log(`\nOf ${chosen.length} Workers ${same} behave the same.`);
process.exitCode = same === chosen.length ? 0 : 1;

function filesOf({ config, files }: Case) {
  const settings = { name: 'x', main: 'src/index.ts', compatibility_date: '2026-10-01', ...config };
  return 'wrangler.toml' in files ? files : { 'wrangler.json': JSON.stringify(settings), ...files };
}

async function byCellar(each: Case): Promise<Made> {
  try {
    const { bundle, read, out } = await worktrees.bundle(filesOf(each), each.environment ?? null);
    const { modules, compatibilityDate, compatibilityFlags } = bundle.worker!;
    return {
      compatibilityDate,
      compatibilityFlags,
      bindings: bundle.vars,
      modulesRoot: join(out, 'modules'),
      modules: modules.map(({ name, type, path }) => moduleOf(join(out, 'modules'), name, TYPES[type], path)),
    };
    function moduleOf(root: string, name: string, type: string, path: string) {
      const contents =
        type === 'Data' || type === 'CompiledWasm' ? readFileSync(join(out, path)) : read(path);
      return { type, path: join(root, name), contents };
    }
  } catch (error) {
    return error as Error;
  }
}

/** Returns the Worker that Wrangler would upload, or Wrangler's error. */
async function byWrangler(each: Case): Promise<Made> {
  const cwd = worktrees.write(filesOf(each));
  const outfile = join(worktrees.write({}), 'upload');
  const require = createRequire(import.meta.url);
  const wrangler = require.resolve('wrangler').replace(/wrangler-dist.*/, 'bin/wrangler.js');
  const environment = each.environment === undefined ? [] : ['--env', each.environment];
  const line = [wrangler, 'deploy', '--dry-run', '--outfile', outfile, ...environment];
  // Without its banner, Wrangler does not query the registry for its newest version.
  const quiet = { CI: '1', WRANGLER_SEND_METRICS: 'false', WRANGLER_HIDE_BANNER: 'true', NO_COLOR: '1' };
  const env = { PATH: process.env.PATH, HOME: worktrees.root, ...quiet };
  try {
    await promisify(execFile)(process.execPath, line, { cwd, env, timeout: WRANGLER_TIMEOUT_MS });
  } catch (error) {
    return error as Error;
  }
  const body = readFileSync(outfile);
  const boundary = body.subarray(2, body.indexOf('\r\n')).toString();
  const headers = { 'content-type': `multipart/form-data; boundary=${boundary}` };
  const form = await new Response(body, { headers }).formData();
  const metadata = JSON.parse(form.get('metadata') as string);
  const bindings = metadata.bindings.map((each: { name: string; text?: string; json?: unknown }) => [
    each.name,
    each.text ?? each.json,
  ]);
  const settings = {
    compatibilityDate: metadata.compatibility_date,
    compatibilityFlags: metadata.compatibility_flags,
    bindings: Object.fromEntries(bindings),
  };
  if (metadata.body_part !== undefined)
    return { ...settings, script: await (form.get(metadata.body_part) as File).text() };
  const modules = [];
  for (const [name, file] of form) {
    if (typeof file === 'string' || UPLOADED[file.type] === undefined) continue;
    const bytes = Buffer.from(await file.arrayBuffer());
    const type = UPLOADED[file.type]!;
    const contents = type === 'Data' || type === 'CompiledWasm' ? bytes : bytes.toString('utf8');
    const module = { type, path: join('/', name), contents };
    if (name === metadata.main_module) modules.unshift(module);
    else modules.push(module);
  }
  return { ...settings, modulesRoot: '/', modules };
}

/** Returns a Worker's status and response body, or why there is no response. */
async function answerOf(made: Made, { isRefused }: Case): Promise<string> {
  if (made instanceof Error) return 'refused';
  if (isRefused) return 'not refused';
  const options = {
    host: '127.0.0.1',
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    workers: [{ name: 'x', ...made }],
  };
  const instance = new Miniflare(convertV4MiniflareOptions(options as never));
  // Miniflare reports a failed start twice: by `ready`, and by the call below.
  instance.ready.catch(() => {});
  try {
    const worker = await instance.getWorker('x');
    const answer = await worker.fetch('http://x/a', { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
    return `${answer.status} ${await answer.text()}`;
  } catch (error) {
    return `does not start: ${(error as Error).message.split('\n')[0]}`;
  } finally {
    await instance.dispose();
  }
}

function explain(made: Made): string {
  return made instanceof Error ? `    ${made.message.slice(0, 2000).replaceAll('\n', '\n    ')}\n` : '';
}
