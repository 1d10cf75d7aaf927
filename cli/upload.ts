// Deploys a folder by upload. It is built and bundled on this machine, and sent with the same calls as Wrangler's. Only
// assets that Cellar does not have are sent.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { FormData } from 'undici';
import { patientFetch } from '../client/index.ts';
import type { App } from '../handlers/contract/apps/apps.ts';
import { Stopped } from './exit.ts';
import { readGit } from './git/folder.ts';
import type { Session } from './session.ts';

/** Digits of an asset's hash, as in Wrangler. */
const HASH_DIGITS = 32;
/** Request timeout, in ms. The last request waits until the deploy is live. */
const DEADLINE_MS = 15 * 60_000;
/** The bundler's process writes the description of the bundle into this file. */
const BUNDLE_FILE = 'bundle.json';
/** Folders of the bundle. Each file in them is sent as a part of the upload. */
const FOLDERS = ['modules', 'migrations', 'next-cache'];

/** Cloudflare's response envelope. */
interface Envelope<Result> {
  success: boolean;
  errors: { message: string }[];
  result: Result;
}

/**
 * Deploys the folder of a session, and waits until it is live.
 * @param environment of the Wrangler configuration; null: the top level
 * @returns the id of the live deploy
 * @throws {Stopped} when it cannot be bundled, or does not go live
 */
export async function uploadFolder(session: Session, app: App, environment: string | null): Promise<string> {
  const scratch = mkdtempSync(join(tmpdir(), 'cellar-upload-'));
  try {
    const out = join(scratch, 'bundle');
    await bundle(session, app, { out, scratch, environment });
    const bundled = JSON.parse(readFileSync(join(out, BUNDLE_FILE), 'utf8')) as { assets: object | null };
    const script = `/accounts/${app.owner}/workers/scripts/${app.slug}`;
    const form = new FormData();
    const jwt = bundled.assets === null ? null : await sendAssets(session, script, join(out, 'assets'));
    const message = readGit(session.place.folder, 'log', '-1', '--format=%s') || 'Upload of a folder';
    const annotations = { 'workers/message': message };
    const metadata = { cellar_bundle: bundled, annotations, ...(jwt !== null && { assets: { jwt } }) };
    form.set('metadata', JSON.stringify(metadata));
    for (const folder of FOLDERS)
      for (const path of filesOf(join(out, folder)))
        form.set(`${folder}${path}`, new Blob([readFileSync(join(out, folder, path))]), path.slice(1));
    const { etag } = await send<{ etag: string }>(session, 'PUT', script, form);
    return etag;
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** Builds and bundles the folder in a separate process. @throws {Stopped} when that fails */
async function bundle(
  session: Session,
  app: App,
  options: { out: string; scratch: string; environment: string | null },
): Promise<void> {
  const { folder, root, env, say, signal } = session.place;
  const settings = await session.call('builds.get', { id: app.id });
  // The folder may already be the one that `root_directory` names.
  const { root_directory } = settings;
  if (root_directory !== null && !existsSync(join(folder, root_directory))) settings.root_directory = null;
  const child = spawn(
    process.execPath,
    [
      '--no-warnings',
      join(root, 'runtime', 'dev', 'bundle.ts'),
      JSON.stringify({ ...options, folder, settings }),
    ],
    // The IPC channel closes when this process ends, even by a crash. The child then ends too.
    { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe', 'ipc'] },
  );
  child.stderr!.setEncoding('utf8').on('data', say);
  const end = () => child.kill('SIGTERM');
  signal.addEventListener('abort', end);
  const [code] = (await once(child, 'close')) as [number | null];
  signal.removeEventListener('abort', end);
  signal.throwIfAborted();
  if (code !== 0) throw new Stopped('failed', 'The folder cannot be deployed. The lines above say why.');
}

/** Sends the assets that Cellar does not have. @returns the token of the upload session, for the deploy's metadata */
async function sendAssets(session: Session, script: string, directory: string): Promise<string> {
  const { default: blake3 } = await import('blake3-wasm');
  const files = new Map<string, string>();
  const manifest: Record<string, { hash: string; size: number }> = {};
  for (const path of filesOf(directory)) {
    const file = join(directory, path);
    const hashed = readFileSync(file).toString('base64') + extname(path).slice(1);
    const hash = blake3.hash(hashed).toString('hex').slice(0, HASH_DIGITS);
    manifest[path] = { hash, size: statSync(file).size };
    files.set(hash, file);
  }
  const started = await send<{ jwt: string; buckets: string[][] }>(
    session,
    'POST',
    `${script}/assets-upload-session`,
    JSON.stringify({ manifest }),
  );
  const count = started.buckets.flat().length;
  session.place.say(`▸ ${count} of ${files.size} assets are new\n`);
  const upload = `${script.slice(0, script.indexOf('/workers/'))}/workers/assets/upload?base64=true`;
  for (const bucket of started.buckets) {
    const form = new FormData();
    for (const hash of bucket) {
      const file = files.get(hash);
      if (file !== undefined) form.set(hash, readFileSync(file).toString('base64'));
    }
    await send(session, 'POST', upload, form, started.jwt);
  }
  return started.jwt;
}

/** Returns paths of the files below a directory, each with a leading slash; empty when there is no directory. */
function filesOf(directory: string): string[] {
  if (!existsSync(directory)) return [];
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(directory.length))
    .sort();
}

/** Sends a request to the API that Cellar has for Wrangler (`/client/v4`). @throws {Stopped} with Cellar's error message */
async function send<Result>(
  { login, place }: Session,
  method: string,
  path: string,
  body: FormData | string,
  token = login.token,
): Promise<Result> {
  const patient = await patientFetch();
  const response = await patient(`${login.url}/client/v4${path}`, {
    method,
    body,
    headers: {
      authorization: `Bearer ${token}`,
      ...(typeof body === 'string' && { 'content-type': 'application/json' }),
    },
    signal: AbortSignal.any([place.signal, AbortSignal.timeout(DEADLINE_MS)]),
  });
  const answer = (await response.json().catch(() => null)) as Envelope<Result> | null;
  if (answer?.success === true) return answer.result;
  const words = answer?.errors?.map(({ message }) => message).join(' ');
  throw new Stopped('failed', words || `${login.url} answered ${response.status}.`, 'cellar deploys');
}
