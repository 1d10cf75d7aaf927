// The host's routes to an app's source: read it, compare it, commit to it.
import type { ServerResponse } from 'node:http';
import type { DeployTrigger } from '../../../handlers/contract/host/host-calls.ts';
import type { HostCall, HostCalls } from '../../../handlers/contract/host/host-routes.ts';
import { HOST_COMMIT_BYTES } from '../../../handlers/contract/sizes.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';
import type { DeployRequests } from '../../builds/queue/requests.ts';
import { changeMain } from '../../builds/source/change-main.ts';
import type { Imports } from '../../builds/source/import.ts';
import type { Layout } from '../../disk/data-directory.ts';
import type { DiskWatch } from '../../disk/disk-watch.ts';
import type { BranchChanges } from '../../git/branch-changes.ts';
import type { MadeCommit } from '../../git/commit.ts';
import { startGit } from '../../git/git.ts';
import { requireBase, requireCommit, resolveCommit } from '../../git/source.ts';
import { commitBody, diffCommits, findEntry, listTree } from '../../git/source-thread.ts';
import { commitTemplate } from '../../git/templates.ts';
import { log } from '../../log.ts';
import { FairQueue, QueueFull } from '../../queues/fair-queue.ts';
import { noSuchApp, Refusal, requireRoom } from '../../refusal.ts';
import { clientLeft } from '../../sockets/client-left.ts';
import { type Call, type HostRoutes, readBody, readJson } from '../host-call.ts';
import type { Outbox } from '../outbox.ts';

const BLOB_DEADLINE_MS = 10 * 60_000;
/** As in git: a file with a NUL in its first bytes is binary. */
const SNIFFED_BYTES = 8_000;
const FLUSH_MS = 1_000;
/** Default number of tree entries in one response. */
const TREE_PAGE = 1_000;

/** One account uses one thread at most. */
const LIMITS = { name: 'calls about source code', running: 2, runningPerOwner: 1, waitingPerOwner: 50 };
const queue = new FairQueue(LIMITS);
/** Each file needs a git process until its client has read it. */
const FILE_LIMITS = { name: 'files of source code', running: 16, runningPerOwner: 4, waitingPerOwner: 50 };
const files = new FairQueue(FILE_LIMITS);

export interface SourceOptions {
  store: HostStore;
  paths: Layout;
  disk: DiskWatch;
  apps: Apps;
  requests: DeployRequests;
  changes: BranchChanges;
  outbox: Outbox;
  imports: Imports;
}

export type SourceCall = Extract<HostCall, `${string}/source/${string}`>;

export function sourceRoutes(options: SourceOptions): Pick<HostRoutes, SourceCall> {
  return {
    'GET /apps/:id/source/tree': (call) => inTurn(options, call, (signal) => tree(options, call, signal)),
    'GET /apps/:id/source/entry': (call) => inTurn(options, call, (signal) => entry(options, call, signal)),
    'GET /apps/:id/source/blob/:sha': (call) => inTurn(options, call, () => blob(options, call), files),
    'GET /apps/:id/source/diff': (call) => inTurn(options, call, (signal) => diff(options, call, signal)),
    'POST /apps/:id/source/commit': (call) => inTurn(options, call, () => commit(options, call)),
    'POST /apps/:id/source/import': async ({ request, response, words }) => {
      const { url } = await readJson<'POST /apps/:id/source/import'>(request);
      const signal = clientLeft(response);
      requireApp(options, words);
      return options.imports.inTurn(options.apps.ownerOf(words[0]!), signal, (turn) =>
        change(options, words, 'import', (repository) => turn.import(repository, new URL(url))),
      );
    },
    'POST /apps/:id/source/template': (call) => inTurn(options, call, () => startFrom(options, call)),
  };
}

async function tree(
  options: SourceOptions,
  { words, query }: Call,
  signal: AbortSignal,
): Promise<HostCalls['GET /apps/:id/source/tree']['answer']> {
  return withRepository(options, words, async (repository) => {
    const sha = await requireCommit(repository, query.get('ref'));
    if (sha === null) return { sha, items: [], more: false };
    const page = await listTree(signal, repository, sha, {
      path: query.get('path') ?? '',
      recursive: query.get('recursive') === 'true',
      offset: Number(query.get('offset') ?? 0),
      limit: Number(query.get('limit') ?? TREE_PAGE),
    });
    return { sha, ...page };
  });
}

async function entry(
  options: SourceOptions,
  { words, query }: Call,
  signal: AbortSignal,
): Promise<HostCalls['GET /apps/:id/source/entry']['answer']> {
  const path = query.get('path') ?? '';
  return withRepository(options, words, async (repository) => {
    const commit = await requireCommit(repository, query.get('ref'));
    if (commit === null) throw new Refusal(404, 'path_not_found', 'nothing was pushed yet');
    const found = await findEntry(signal, repository, commit, path);
    if (found.type !== 'blob' || found.size === null)
      throw new Refusal(404, 'path_not_found', `${path} is not a file`);
    return { commit, ...found, size: found.size };
  });
}

/** Streams a part of a file. A response header says whether the file is binary. */
function blob(options: SourceOptions, call: Call): Promise<void> {
  return withRepository(options, call.words, (repository) => sendBlob(repository, call));
}

async function sendBlob(repository: string, { response, words, query }: Call): Promise<void> {
  const child = await startGit(repository, ['cat-file', 'blob', words[1]!]);
  const end = () => {
    child.end();
    // Otherwise a paused pipe would never close.
    child.stdout.destroy();
  };
  const deadline = setTimeout(end, BLOB_DEADLINE_MS);
  response.on('close', end);
  if (response.destroyed) end();
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors = (errors + chunk.toString('utf8')).slice(0, 1000);
  });
  sendPart(child.stdout, response, Number(query.get('offset') ?? 0), Number(query.get('length')));
  const { code } = await child.closed;
  clearTimeout(deadline);
  response.off('close', end);
  if (code === 0 || response.writableEnded) return;
  log('error', 'git cat-file failed', { error: errors.trim() });
  response.destroy();
}

function sendPart(
  output: NodeJS.ReadableStream,
  response: ServerResponse,
  offset: number,
  length: number,
): void {
  let seen = 0;
  const begin = (first: Buffer) => {
    if (response.headersSent) return;
    const binary = first.subarray(0, SNIFFED_BYTES).includes(0);
    response.writeHead(200, {
      'content-type': 'application/octet-stream',
      'x-cellar-binary': String(binary),
      'content-length': length,
    });
  };
  output.on('data', (chunk: Buffer) => {
    begin(chunk);
    const from = Math.max(0, offset - seen);
    const to = Math.min(chunk.length, offset + length - seen);
    seen += chunk.length;
    if (from < to && !response.write(chunk.subarray(from, to))) {
      output.pause();
      response.once('drain', () => output.resume());
    }
    if (seen >= offset + length) response.end();
  });
  output.on('end', () => {
    if (seen > 0 || length > 0) return;
    begin(Buffer.alloc(0));
    response.end();
  });
}

async function diff(
  options: SourceOptions,
  { words, query }: Call,
  signal: AbortSignal,
): Promise<HostCalls['GET /apps/:id/source/diff']['answer']> {
  const [from, to] = [query.get('from'), query.get('to')];
  return withRepository(options, words, async (repository) => {
    const before =
      from === null ? await liveCommit(options, repository, words[0]!) : await requireBase(repository, from);
    return diffCommits(signal, repository, before, await requireCommit(repository, to));
  });
}

/** Returns the commit of the live release; null without a release, or when a forced push has removed the commit. */
async function liveCommit(
  { store, apps }: SourceOptions,
  repository: string,
  appId: string,
): Promise<string | null> {
  const live = apps.get(appId)?.liveDeployId;
  const sha = live ? store.deploys.find(appId, live)?.sha : undefined;
  return sha === undefined ? null : resolveCommit(repository, sha);
}

async function commit(
  options: SourceOptions,
  { request, words }: Call,
): Promise<HostCalls['POST /apps/:id/source/commit']['answer']> {
  requireRoom(options.disk);
  requireApp(options, words);
  const body = await readBody(request, HOST_COMMIT_BYTES);
  // No signal: a commit continues when its client has left.
  return change(options, words, 'commit', (repository) =>
    commitBody(undefined, repository, options.paths.builds, body),
  );
}

/** Commits a template, and queues its deploy. */
async function startFrom(
  options: SourceOptions,
  { request, words }: Call,
): Promise<HostCalls['POST /apps/:id/source/template']['answer']> {
  const { template, author } = await readJson<'POST /apps/:id/source/template'>(request);
  return change(options, words, 'commit', (repository) =>
    commitTemplate(repository, options.paths.builds, template, author),
  );
}

/** Moves main to the commit that `make` makes, and queues its deploy. */
async function change(
  options: SourceOptions,
  words: string[],
  trigger: DeployTrigger,
  make: (repository: string) => Promise<MadeCommit>,
): Promise<{ sha: string; deploy_id: string }> {
  requireRoom(options.disk);
  requireApp(options, words);
  const { fact } = await changeMain(options, words[0]!, trigger, make);
  // So that the next list of deploys contains this one.
  await options.outbox.flushed(FLUSH_MS);
  return { sha: fact.sha, deploy_id: fact.id };
}

function requireApp({ apps }: SourceOptions, [appId]: string[]): void {
  if (!apps.get(appId!)) throw noSuchApp();
}

async function withRepository<T>(
  options: SourceOptions,
  words: string[],
  read: (repository: string) => Promise<T>,
): Promise<T> {
  requireApp(options, words);
  return options.apps.withRepository(words[0]!, read);
}

/** Queues work on a repository, fairly between accounts. */
async function inTurn<T>(
  { apps }: SourceOptions,
  { response, words: [appId] }: Call,
  work: (signal: AbortSignal) => Promise<T>,
  turns = queue,
): Promise<T> {
  const signal = clientLeft(response);
  try {
    const owner = apps.get(appId!)?.wanted.owner ?? appId!;
    return await turns.run({ owner, signal }, () => work(signal));
  } catch (error) {
    throw error instanceof QueueFull ? new Refusal(503, 'host_unavailable', error.message) : error;
  }
}
