// Small Workers that use Node's API, bundled by Cellar and by Wrangler: in workerd, both must answer the same.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { makeWorktrees } from '../support/bundler/worktree.ts';
import { COMPILE_CACHE_ENV } from '../support/compiled.ts';
import { newMiniflare } from '../support/miniflare.ts';

const require = createRequire(import.meta.url);
const worktrees = makeWorktrees();
after(worktrees.remove);

/** The imports of the Workers. Their answers are the values of the expressions in `QUESTIONS`. */
const IMPORTS = `
  import os from 'node:os'; import fs from 'fs'; import { join } from 'node:path'; import child from 'node:child_process';
  import http from 'node:http'; import tty from 'tty'; import v8 from 'node:v8'; import vm from 'node:vm'; import dgram from 'node:dgram';
  import { performance as timer, PerformanceObserver } from 'node:perf_hooks'; import punycode from 'punycode';
  import process from 'node:process'; import log from 'node:console'; import threads from 'node:worker_threads';
  import readline from 'node:readline/promises'; import { EventEmitter } from 'events'; import sqlite from 'node:sqlite';
  import fetched, { Headers as Fetched } from 'node-fetch'; import old from './old.cjs'; import agent from '_http_agent';`;

const QUESTIONS: Record<string, string> = {
  'os: platform': 'os.platform() + os.EOL.length + typeof os.cpus',
  'os: homedir': 'os.homedir()',
  'fs: a file that is not there': "fs.readFileSync('/none')",
  'fs: what it has': 'Object.keys(fs).sort().join().slice(0, 300) + typeof fs.promises?.readFile',
  path: "join('a', '..', 'b')",
  'child_process: spawn': "child.spawn('true')",
  'http: a server': 'typeof http.createServer(() => {}).listen',
  'http: what it has': 'typeof http.request + http.METHODS?.length + http.STATUS_CODES?.[404]',
  'tty: isatty': 'tty.isatty(1)',
  v8: 'typeof v8.getHeapStatistics() + typeof v8.serialize',
  vm: "vm.runInThisContext('1')",
  dgram: "dgram.createSocket('udp4')",
  perf_hooks: 'typeof timer.now() + typeof timer.timerify + typeof PerformanceObserver',
  'performance: the global':
    'typeof performance.mark + (performance === timer) + typeof performance.nodeTiming',
  punycode: "punycode.toASCII('mañana.com')",
  'process: module and global': 'String(process === globalThis.process)',
  'process: versions':
    'process.version + process.platform + process.arch + process.versions.node + process.title',
  'process: streams': 'typeof process.stdout?.write + process.stdout?.isTTY + process.stdout?.fd',
  'process: argv, cwd and pid':
    'JSON.stringify([process.argv, process.cwd(), process.pid, process.exitCode])',
  'process: hrtime': 'typeof process.hrtime.bigint() + process.hrtime().length',
  'process: memory': 'Object.keys(process.memoryUsage()).join()',
  'process: events': 'typeof process.on + typeof process.emitWarning + process.listenerCount("x")',
  'process: variables': 'process.env.WORD',
  'process: kind': 'Object.prototype.toString.call(process) + typeof process.binding',
  console: 'typeof log.Console + (log === console) + typeof console.Console + typeof console.time',
  worker_threads: 'threads.isMainThread + typeof threads.MessageChannel',
  'readline: an interface': 'typeof readline.createInterface({ input: process.stdin })',
  events: "typeof new EventEmitter().on('x', () => {}).emit",
  sqlite: 'typeof sqlite.DatabaseSync',
  'Buffer and timers':
    "Buffer.from('é').toString('hex') + typeof setImmediate + typeof global + (global === globalThis)",
  'a package that the platform stands in for': 'typeof fetched + fetched.own + (Fetched === Headers)',
  'required modules': 'JSON.stringify(old())',
  'a hidden module of Node': 'typeof agent + typeof agent.Agent',
};

const FILES = {
  'old.cjs': `const os = require('os'); const fetched = require('node-fetch'); const inherits = require('inherits');
    module.exports = () => [os.type(), typeof os.cpus, typeof fetched, typeof fetched.Headers, typeof inherits,
      typeof require('node:util').inspect, typeof require('process').nextTick, typeof require('_http_agent').Agent];`,
  'node_modules/node-fetch/package.json': '{"name":"node-fetch","main":"index.js"}',
  'node_modules/node-fetch/index.js': 'export default function () {}; export class Headers {}',
  'node_modules/inherits/package.json': '{"name":"inherits","main":"index.js"}',
  'node_modules/inherits/index.js': 'module.exports = 1',
};

const answers = (imports: string, questions: Record<string, string>) => `${imports}
  const questions = {${Object.entries(questions)
    .map(([name, expression]) => `${JSON.stringify(name)}: () => ${expression}`)
    .join(',\n')}};
  const answer = (question) => { try { return String(question()); } catch (error) { return error.name + ': ' + error.message; } };
  export default { fetch: () => Response.json(Object.fromEntries(Object.entries(questions).map(([name, question]) => [name, answer(question)]))) };`;

const ALL = { 'index.js': answers(IMPORTS, QUESTIONS), ...FILES };
const NATIVE = {
  'index.js': answers(
    "import { join } from 'node:path'; import { AsyncLocalStorage } from 'node:async_hooks';",
    {
      path: "join('a', '..', 'b')",
      storage: 'new AsyncLocalStorage().run(7, () => 1)',
      globals: 'typeof globalThis.process + typeof globalThis.Buffer + typeof globalThis.setImmediate',
    },
  ),
};
const COMPAT = { compatibility_flags: ['nodejs_compat'] };

const CASES: Record<string, { config: Record<string, unknown>; files: Record<string, string> }> = {
  'before most modules': { config: { compatibility_date: '2025-04-01', ...COMPAT }, files: ALL },
  'with os, fs and http': { config: { compatibility_date: '2025-09-15', ...COMPAT }, files: ALL },
  'with the newer process': { config: { compatibility_date: '2026-02-19', ...COMPAT }, files: ALL },
  'without a flag': { config: { compatibility_date: '2026-10-01' }, files: ALL },
  'modules switched on and off': {
    config: {
      compatibility_date: '2025-09-20',
      compatibility_flags: ['nodejs_compat', 'disable_nodejs_os_module', 'enable_nodejs_vm_module'],
    },
    files: ALL,
  },
  'the second version by its name': {
    config: { compatibility_date: '2024-01-01', compatibility_flags: ['nodejs_compat_v2'] },
    files: ALL,
  },
  'the first version': { config: { compatibility_date: '2024-01-01', ...COMPAT }, files: NATIVE },
  'a module that the project replaces': {
    config: {
      compatibility_date: '2025-04-01',
      ...COMPAT,
      alias: { 'node:os': './own.js', inherits: './own.js' },
    },
    files: {
      'index.js': answers("import os from 'node:os'; import inherits from 'inherits';", {
        own: 'os + inherits',
      }),
      'own.js': "export default 'own'",
    },
  },
};

/** Bundles a project with `wrangler deploy --dry-run`. */
async function byWrangler(worktree: string): Promise<string> {
  const out = join(worktrees.write({}), 'out');
  const wrangler = require.resolve('wrangler').replace(/wrangler-dist.*/, 'bin/wrangler.js');
  const words = [wrangler, 'deploy', '--dry-run', '--outdir', out];
  // Without its banner, Wrangler does not ask the registry for its newest version.
  const quiet = { CI: '1', WRANGLER_SEND_METRICS: 'false', WRANGLER_HIDE_BANNER: 'true' };
  const env = { ...COMPILE_CACHE_ENV, PATH: process.env.PATH, HOME: worktrees.root, ...quiet };
  await promisify(execFile)(process.execPath, words, { cwd: worktree, env, timeout: 60_000 });
  const [name] = readdirSync(out).filter((file) => file.endsWith('.js'));
  return readFileSync(join(out, name!), 'utf8');
}

test('Workers that use Node answer as when Wrangler bundles them', { timeout: 180_000 }, async (t) => {
  const workers: Record<string, unknown>[] = [];
  const cases = Object.values(CASES).entries();
  const bundleNext = async () => {
    for (const [index, { config, files }] of cases) {
      const all = { 'wrangler.json': JSON.stringify({ name: 'x', main: 'index.js', ...config }), ...files };
      const wranglers = await byWrangler(worktrees.write(all));
      const { bundle, read } = await worktrees.bundle(all);
      const { modules, compatibilityDate, compatibilityFlags } = bundle.worker!;
      const settings = { modules: true, compatibilityDate, compatibilityFlags, bindings: { WORD: 'a word' } };
      workers.push({ ...settings, name: `own-${index}`, script: read(modules[0]!.path) });
      workers.push({ ...settings, name: `wrangler-${index}`, script: wranglers });
    }
  };
  await Promise.all([bundleNext(), bundleNext(), bundleNext()]);
  const options = { workers };
  const instance = newMiniflare(options);
  t.after(() => instance.dispose());
  const ask = async (name: string) => {
    const worker = await instance.getWorker(name);
    return (await (await worker.fetch('http://x/')).json()) as Record<string, string>;
  };
  for (const [index, name] of Object.keys(CASES).entries()) {
    await t.test(name, async () => {
      const expected = await ask(`wrangler-${index}`);
      assert.deepEqual(await ask(`own-${index}`), expected);
    });
  }
});

test("sources of polyfills are named by their package, not by Cellar's path", async () => {
  const config = { name: 'x', main: 'index.js', compatibility_date: '2025-04-01', ...COMPAT };
  const { read } = await worktrees.bundle({ 'wrangler.json': JSON.stringify(config), ...ALL });
  const { sources } = JSON.parse(read('modules/index.js.map')) as { sources: string[] };
  assert.ok(sources.includes('node_modules/unenv/dist/runtime/node/os.mjs'));
  assert.deepEqual(
    sources.filter((source) => /^\/|\.\.\//.test(source)),
    [],
  );
});

test('the polyfills have the versions that Wrangler uses', () => {
  const own = require('../../package.json').dependencies;
  const { dependencies } = require(require.resolve('wrangler').replace(/wrangler-dist.*/, 'package.json'));
  for (const name of ['unenv', '@cloudflare/unenv-preset']) assert.equal(own[name], dependencies[name]);
});
