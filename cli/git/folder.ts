// Reads the app's name from a project's folder, and runs git in it.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Stopped } from '../exit.ts';
import { firstLine } from '../show.ts';

/** Loads wrangler as CommonJS, because `import()` would parse its 15 MB a second time. */
const require = createRequire(import.meta.url);
/** Name of the git remote for Cellar. */
export const REMOTE = 'cellar';
/** Names of Wrangler configurations, in the bundler's order of preference. */
export const CONFIGURATIONS = ['wrangler.json', 'wrangler.jsonc', 'wrangler.toml'];
/** Maximum bytes of git's output, such as a list of files. */
const OUTPUT_BYTES = 64 * 2 ** 20;

/** Returns the slug in the URL of the remote `cellar`; null without one. */
export function linkedSlug(folder: string): string | null {
  const url = readGit(folder, 'config', '--get', `remote.${REMOTE}.url`);
  return url === null ? null : (/\/([^/]+?)(?:\.git)?\/?$/.exec(url)?.[1] ?? null);
}

/** Returns the path of the Wrangler configuration; null without one. */
export function configurationOf(folder: string): string | null {
  return CONFIGURATIONS.map((name) => join(folder, name)).find((path) => existsSync(path)) ?? null;
}

/** Returns the `name` at the top level of the Wrangler configuration; null without one. @throws {Stopped} when it is invalid */
export function namedByProject(folder: string): string | null {
  const file = configurationOf(folder);
  const name = file === null ? null : readConfiguration(file)?.name;
  return typeof name === 'string' && /^[a-z0-9-]+$/.test(name) ? name : null;
}

function readConfiguration(file: string): { name?: unknown } | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    // Only wrangler reads comments and TOML. It takes half a second to load, so plain JSON is read without it.
  }
  const wrangler = require('wrangler') as typeof import('wrangler');
  try {
    return wrangler.experimental_readRawConfig({ config: file }).rawConfig;
  } catch (error) {
    throw new Stopped('usage', `${file} cannot be read: ${firstLine((error as Error).message)}`);
  }
}

export function hasGit(): boolean {
  return readGit('/', '--version') !== null;
}

/**
 * Whether the folder is in a git work tree.
 * @throws {Stopped} without git, and when git cannot read the repository that contains the folder
 */
export function isRepository(folder: string): boolean {
  if (!hasGit()) throw withoutGit();
  try {
    return requireGit(folder, 'rev-parse', '--is-inside-work-tree') === 'true';
  } catch (error) {
    if (isBelowRepository(folder)) throw error;
    return false;
  }
}

function withoutGit(): Stopped {
  return new Stopped('failed', 'git is not installed.');
}

function isBelowRepository(folder: string): boolean {
  const above = dirname(folder);
  return existsSync(join(folder, '.git')) || (above !== folder && isBelowRepository(above));
}

/** Runs git and returns its trimmed output; null when it fails. */
export function readGit(folder: string, ...words: string[]): string | null {
  try {
    return requireGit(folder, ...words);
  } catch {
    return null;
  }
}

/** Runs git and returns its trimmed output. @throws {Stopped} with git's message when it fails */
export function requireGit(folder: string, ...words: string[]): string {
  const { status, stdout, stderr } = spawnSync('git', words, {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    maxBuffer: OUTPUT_BYTES,
  });
  if (status === 0) return stdout.trim();
  // For a repository of another user, git's error message contains the command that permits its use.
  const [next = 'cellar deploy --upload'] =
    /git config --global --add safe\.directory .+/.exec(stderr ?? '') ?? [];
  const reason = firstLine(stderr ?? '') || `git ${words[0]} failed.`;
  throw new Stopped('usage', `git cannot read this repository: ${reason}`, next);
}

export interface GitRun {
  folder: string;
  env: Readonly<Record<string, string | undefined>>;
  /** Called with text of git's standard error. */
  say: (text: string) => void;
  signal: AbortSignal;
}

/** Runs git. Its standard error goes to `say` as it arrives. @returns its exit code; 1 when a signal killed it */
export function runGit({ folder, env, say, signal }: GitRun, ...words: string[]): Promise<number> {
  const child = spawn('git', words, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'], signal });
  child.stderr.setEncoding('utf8').on('data', say);
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  child.on('error', (error: NodeJS.ErrnoException) => {
    reject(error.code === 'ENOENT' ? withoutGit() : error);
  });
  child.on('close', (code) => resolve(code ?? 1));
  return promise;
}

/** Returns an environment with which git sends an API key to `url` only. Process lists would show an argument. */
export function withKey(
  env: Readonly<Record<string, string | undefined>>,
  url: string,
  key: string,
): Record<string, string | undefined> {
  const sent = Buffer.from(`git:${key}`).toString('base64');
  const first = Number(env.GIT_CONFIG_COUNT ?? 0);
  return {
    ...env,
    GIT_TERMINAL_PROMPT: '0',
    GIT_CONFIG_COUNT: String(first + 1),
    [`GIT_CONFIG_KEY_${first}`]: `http.${url}.extraHeader`,
    [`GIT_CONFIG_VALUE_${first}`]: `Authorization: Basic ${sent}`,
  };
}
