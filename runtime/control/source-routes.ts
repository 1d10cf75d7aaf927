// The host's routes to an app's source: read it, compare it, commit to it.
import type { ServerResponse } from 'node:http';
import { HOST_COMMIT_BYTES } from '../../handlers/contract/sizes.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { Apps } from '../apps/apps.ts';
import type { DeployQueue } from '../builds/queue.ts';
import type { BranchChanges } from '../git/branch-changes.ts';
import { startGit } from '../git/git.ts';
import { DEPLOY_REF } from '../git/repository.ts';
import { requireCommit, resolveCommit } from '../git/source.ts';
import { commitBody, diffCommits, findEntry, listTree } from '../git/source-thread.ts';
import { log } from '../log.ts';
import type { Layout } from '../machine/data-directory.ts';
import type { DiskWatch } from '../machine/disk-watch.ts';
import { type Call, type Route, readBody, sendJson } from './host-call.ts';
import type { Outbox } from './outbox.ts';
import { Refusal, requireRoom } from './refusal.ts';

const BLOB_DEADLINE_MS = 10 * 60_000;
/** Git's own measure: a file with a NUL this near to its beginning is no text. */
const SNIFFED_BYTES = 8_000;
const FLUSH_MS = 1_000;
/** Entries of a tree in one answer, unless fewer are asked for. */
const TREE_PAGE = 1_000;

/** What the routes need of the rest of the host. */
export interface SourceOptions {
  store: HostStore;
  paths: Layout;
  disk: DiskWatch;
  apps: Apps;
  queue: DeployQueue;
  changes: BranchChanges;
  outbox: Outbox;
}

export function sourceRoutes(options: SourceOptions): Route[] {
  const at = (name: string) => new RegExp(`^/apps/([0-9a-z]{16})/source/${name}$`);
  return [
    ['GET', at('tree'), (call) => tree(options, call)],
    ['GET', at('entry'), (call) => entry(options, call)],
    ['GET', at('blob/([0-9a-f]{40})'), (call) => blob(options, call)],
    ['GET', at('diff'), (call) => diff(options, call)],
    ['POST', at('commit'), (call) => commit(options, call)],
  ];
}

async function tree(options: SourceOptions, { response, words, query }: Call): Promise<void> {
  const repository = repositoryOf(options, words);
  const sha = await requireCommit(repository, query.get('ref'));
  if (sha === null) return sendJson(response, { sha, items: [], more: false });
  const path = query.get('path') ?? '';
  const page = await listTree(repository, sha, {
    path,
    recursive: query.get('recursive') === 'true',
    offset: Number(query.get('offset') ?? 0),
    limit: Number(query.get('limit') ?? TREE_PAGE),
  });
  sendJson(response, { sha, ...page });
}

async function entry(options: SourceOptions, { response, words, query }: Call): Promise<void> {
  const repository = repositoryOf(options, words);
  const path = query.get('path') ?? '';
  const commit = await requireCommit(repository, query.get('ref'));
  if (commit === null) throw new Refusal(404, 'path_not_found', 'nothing was pushed yet');
  const found = await findEntry(repository, commit, path);
  if (found.type !== 'blob') throw new Refusal(404, 'path_not_found', `${path} is no file`);
  sendJson(response, { commit, ...found });
}

/** Streams a part of a file. The head tells whether it is text. */
async function blob(options: SourceOptions, { response, words, query }: Call): Promise<void> {
  const child = await startGit(repositoryOf(options, words), ['cat-file', 'blob', words[1]!]);
  const end = () => child.end();
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

async function diff(options: SourceOptions, { response, words, query }: Call): Promise<void> {
  const repository = repositoryOf(options, words);
  const [from, to] = [query.get('from'), query.get('to')];
  const before =
    from === null ? await liveCommit(options, repository, words[0]!) : await requireCommit(repository, from);
  sendJson(response, await diffCommits(repository, before, await requireCommit(repository, to)));
}

/** The commit that serves; null when none does, or a forced push has taken it away. */
async function liveCommit(
  { store, apps }: SourceOptions,
  repository: string,
  appId: string,
): Promise<string | null> {
  const live = apps.get(appId)?.liveDeployId;
  const sha = live ? store.deploys.find(appId, live)?.sha : undefined;
  return sha === undefined ? null : resolveCommit(repository, sha);
}

async function commit(options: SourceOptions, { request, response, words }: Call): Promise<void> {
  const { paths, disk, queue, changes, outbox } = options;
  requireRoom(disk);
  const appId = words[0]!;
  const repository = repositoryOf(options, words);
  const body = await readBody(request, HOST_COMMIT_BYTES);
  const change = async () => {
    const sha = await commitBody(repository, paths.builds, body);
    return queue.request({ appId, sha, ref: DEPLOY_REF, trigger: 'commit' });
  };
  const { fact } = await changes.during(appId, change());
  // So that a list that is asked for now has the deploy.
  await outbox.flushed(FLUSH_MS);
  sendJson(response, { sha: fact.sha, deploy_id: fact.id }, 202);
}

function repositoryOf({ apps, paths }: SourceOptions, [appId]: string[]): string {
  if (!apps.get(appId!)) throw new Refusal(404, 'app_not_found', 'no such app');
  return paths.repository(appId!);
}
