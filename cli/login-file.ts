// Finds the Cellar to call, and the token for it.
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { Stopped } from './exit.ts';

/** A Cellar, and the credentials for it. */
export interface Login {
  url: string;
  /** The runner token or an API key. */
  token: string;
  /** An API key for git, because git refuses the runner token (the host's own). Null when none is known. */
  key: string | null;
}

/** What `cellar login` stores in its file. */
export interface Saved {
  url: string;
  token: string;
  /** The origin of git, such as `https://git.apps.example.com`, if it is known. */
  git?: string;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Finds the URL of a Cellar: `CELLAR_URL`, else that of `cellar login`, else that of the local Cellar (see `ownAddress`). The
 * token is `CELLAR_TOKEN`, else that of `cellar login` or of the local Cellar for the same URL.
 * @param root the folder of this clone
 * @throws {Stopped} when there is no URL or no token, one of them is invalid, or the login's file is damaged
 */
export function findLogin(env: Environment, root: string): Login {
  const kept = savedLogin(env);
  const named = env.CELLAR_URL ? addressOf(env.CELLAR_URL, 'CELLAR_URL') : kept?.url;
  const token = tokenOf(env.CELLAR_TOKEN ?? '') || (kept?.url === named ? kept?.token : undefined);
  if (named !== undefined && token) return login(named, token);
  const data = dataOf(env, root);
  const own = ownAddress(env, root);
  const url = named ?? own;
  if (url === undefined)
    throw new Stopped(
      'unavailable',
      `No Cellar runs with data in ${data}, or you may not read it. Set RUNNER_DATA_DIR or CELLAR_URL, or use \`cellar login\`.`,
      `npm --prefix ${root} start`,
    );
  if (token) return login(url, token);
  if (url === own && existsSync(join(data, 'token'))) {
    return { url, token: textOf(join(data, 'token')), key: textOf(join(data, 'api-key')) };
  }
  throw new Stopped('signIn', `There is no token for ${url}: CELLAR_TOKEN is not set.`, 'cellar login');
}

/**
 * Returns the API's address of the local Cellar: the one whose data is in `RUNNER_DATA_DIR`, by default `.cellar` in this
 * clone. Undefined if that Cellar does not run, or if this user may not read its files. A killed process may have left the
 * address file, and another server may use the port now. So this also checks that a process holds the data directory's lock.
 */
export function ownAddress(env: Environment, root: string): string | undefined {
  const data = dataOf(env, root);
  const file = join(data, 'api-address');
  if (!existsSync(file)) return undefined;
  let lock: Database.Database | undefined;
  try {
    lock = new Database(join(data, 'host.lock'), { readonly: true, timeout: 0 });
    lock.pragma('schema_version');
    return undefined;
  } catch (error) {
    const { code } = error as { code?: string };
    // The lock file is missing, or belongs to another user.
    if (code === 'SQLITE_CANTOPEN') return undefined;
    if (code !== 'SQLITE_BUSY') throw error;
    return textOf(file);
  } finally {
    lock?.close();
  }
}

/**
 * Returns an address without trailing slashes.
 * @param name its name in the message
 * @throws {Stopped} with a suggestion, when the text is not an HTTP or HTTPS URL, or has a user name or a password
 */
export function addressOf(text: string, name: string): string {
  const url = URL.parse(text);
  const isWeb = /^https?:$/.test(url?.protocol ?? '');
  // The message must not show a password. An invalid URL may have one before an @, unless it starts with a host
  // and a slash.
  if (url?.username || url?.password || (!isWeb && text.includes('@') && !/^[\w.-]+\//.test(text)))
    throw new Stopped(
      'usage',
      `${name} has a user name or a password in it. Remove them: only the token signs in.`,
    );
  if (isWeb) return text.replace(/\/+$/, '');
  const isHost = /^[\w.-]+(:\d+)?(\/.*)?$/.test(text);
  const scheme = /^(localhost|127\.|[\w-]+\.localhost)/.test(text) ? 'http' : 'https';
  const meant = isHost ? `${scheme}://${text}` : 'https://api.example.com';
  throw new Stopped(
    'usage',
    `${name} is ${text}, which is not an address: it needs a scheme, as in ${meant}.`,
  );
}

/** Returns a token without the spaces around it. @throws {Stopped} when it has characters that a header cannot carry */
export function tokenOf(text: string): string {
  const token = text.trim();
  if (/^[ -~]*$/.test(token)) return token;
  throw new Stopped(
    'signIn',
    'The token has a character that is not printable ASCII: copy it again.',
    'cellar login',
  );
}

/** Saves a login for later commands, readable only by the current user. @returns the file's path */
export function keepLogin(env: Environment, kept: Saved): string {
  const file = fileOf(env);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  writeFileSync(`${file}.new`, `${JSON.stringify(kept, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
  return file;
}

function dataOf(env: Environment, root: string): string {
  return resolve(root, env.RUNNER_DATA_DIR || '.cellar');
}

function login(url: string, text: string): Login {
  const token = tokenOf(text);
  return { url, token, key: token.startsWith('cellar_') ? token : null };
}

/** Returns the login that `cellar login` saved; null without one. @throws {Stopped} when the file is not JSON */
export function savedLogin(env: Environment): Saved | null {
  const file = fileOf(env);
  if (!existsSync(file)) return null;
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Saved;
  } catch {
    throw new Stopped(
      'signIn',
      `The file ${file} is damaged: it is not as \`cellar login\` wrote it.`,
      'cellar login',
    );
  }
}

function fileOf(env: Environment): string {
  return join(env.XDG_CONFIG_HOME || join(env.HOME ?? '/', '.config'), 'cellar', 'login.json');
}

function textOf(file: string): string {
  return readFileSync(file, 'utf8').trim();
}
