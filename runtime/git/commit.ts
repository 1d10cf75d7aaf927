// Makes commits on main without a working copy, with a separate index and git's plumbing commands.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ChildError } from '../processes/child.ts';
import { Refusal } from '../refusal.ts';
import { runGit } from './git.ts';
import { DEPLOY_REF } from './repository.ts';
import type { RefUpdate } from './smart-http.ts';
import { listEntries, resolveCommit } from './source.ts';

const NO_SHA = '0'.repeat(40);
const REGULAR = ['100644', '100755'];

/** A change of one file. If `content` is null, the file keeps its content. */
export interface FileChange {
  path: string;
  content: Buffer | null;
  /** `100644` or `100755`; null keeps the mode. */
  mode: string | null;
  delete: boolean;
  /** The path before a rename; null for a file that is not renamed. */
  from: string | null;
}

export interface Commit {
  message: string;
  author: { name: string; email: string };
  /** The commit that main must be at; null for any. */
  parent: string | null;
  files: FileChange[];
}

/** The encoding of a commit: this head as one line of JSON, then all contents. */
type CommitHead = Omit<Commit, 'files'> & {
  /** `bytes` is the content's length; null without content. */
  files: (Omit<FileChange, 'content'> & { bytes: number | null })[];
};

/** Like `commitFiles`, for an encoded commit. */
export function commitBody(repository: string, scratch: string, body: Uint8Array): Promise<MadeCommit> {
  const { buffer, byteOffset, byteLength } = body;
  return commitFiles(repository, scratch, readCommit(Buffer.from(buffer, byteOffset, byteLength)));
}

function readCommit(body: Buffer): Commit {
  const line = body.indexOf(0x0a);
  const { files, ...head } = JSON.parse(body.toString('utf8', 0, line)) as CommitHead;
  let at = line + 1;
  return {
    ...head,
    files: files.map(({ bytes, ...file }) => {
      const content = bytes === null ? null : body.subarray(at, at + bytes);
      at += bytes ?? 0;
      return { ...file, content };
    }),
  };
}

interface File {
  mode: string;
  /** Null until its content is stored as a git object. */
  sha: string | null;
}

/** A new commit. `moveMain` moves main to it. */
export interface MadeCommit {
  sha: string;
  /** The commit that main must still be at; null for an empty repository. */
  before: string | null;
}

/**
 * Makes a commit on top of main, for `moveMain`.
 * @param scratch an existing directory for temporary files
 * @throws {Refusal} `commit_conflict` when main is at another commit, `path_not_found`, `invalid_input`
 */
export async function commitFiles(repository: string, scratch: string, commit: Commit): Promise<MadeCommit> {
  const tip = await resolveCommit(repository, DEPLOY_REF);
  if (commit.parent !== null && commit.parent !== tip) throw conflict(tip);
  const before = await readFiles(repository, tip);
  const after = changeFiles(before, commit.files);
  const directory = await mkdtemp(join(scratch, 'commit-'));
  try {
    await writeObjects(repository, directory, commit.files, after);
    const tree = await writeTree(repository, directory, { tip, before, after });
    return { sha: await writeCommit(repository, tree, tip, commit), before: tip };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Moves main to a commit. @throws {Refusal} `commit_conflict` when main is at another commit than `before` */
export async function moveMain(repository: string, { sha, before }: MadeCommit): Promise<void> {
  await runGit(repository, ['update-ref', DEPLOY_REF, sha, before ?? NO_SHA]).catch(
    async (error: unknown) => {
      const now = await resolveCommit(repository, DEPLOY_REF);
      throw error instanceof ChildError && now !== before ? conflict(now) : error;
    },
  );
}

/** Returns the change of main to a commit. */
export function updateOfMain({ sha, before }: MadeCommit): RefUpdate {
  return { ref: DEPLOY_REF, before: before ?? NO_SHA, after: sha };
}

function conflict(tip: string | null): Refusal {
  return new Refusal(
    409,
    'commit_conflict',
    `main has changed: ${tip === null ? 'it has no commit' : `its commit is ${tip} now`}; read the files again, then commit again`,
  );
}

async function readFiles(repository: string, tip: string | null): Promise<Map<string, File>> {
  if (tip === null) return new Map();
  const entries = await listEntries(repository, ['ls-tree', '-r', '-z', '--full-tree', tip]);
  return new Map(entries.map(({ path, mode, sha }) => [path, { mode, sha }]));
}

/** Applies the changes in order. Returns the files afterwards. */
function changeFiles(before: Map<string, File>, changes: FileChange[]): Map<string, File> {
  const files = new Map(before);
  for (const change of changes) {
    const { path, from, content, mode } = change;
    const old = files.get(from ?? path);
    if (content === null || from !== null) requireRegular(from ?? path, old);
    if (old?.mode === '160000') throw invalid(`${path} is a submodule`);
    if (from !== null || change.delete) files.delete(from ?? path);
    if (change.delete) continue;
    const kept = old && REGULAR.includes(old.mode) ? old.mode : '100644';
    files.set(path, { mode: mode ?? kept, sha: content === null ? old!.sha : null });
  }
  requireNoFileAsDirectory(files);
  return files;
}

function requireRegular(path: string, file: File | undefined): void {
  if (file === undefined) throw new Refusal(404, 'path_not_found', `main has no file ${path}`);
  if (file.sha === null) throw invalid(`the commit has more than one change of ${path}; keep one`);
  if (!REGULAR.includes(file.mode)) throw invalid(`${path} is not a regular file, so it cannot be changed`);
}

function requireNoFileAsDirectory(files: Map<string, File>): void {
  for (const path of files.keys()) {
    for (let slash = path.indexOf('/'); slash >= 0; slash = path.indexOf('/', slash + 1)) {
      const directory = path.slice(0, slash);
      if (files.has(directory)) throw invalid(`there is a file ${directory}, and ${path} would lie in it`);
    }
  }
}

function invalid(message: string): Refusal {
  return new Refusal(400, 'invalid_input', message);
}

/** Stores each new content as a git object, all in one process and synced together. */
async function writeObjects(
  repository: string,
  directory: string,
  changes: FileChange[],
  after: Map<string, File>,
): Promise<void> {
  const written = changes.filter(({ content, path }) => content !== null && after.get(path)?.sha === null);
  const worktree = join(directory, 'contents');
  await mkdir(worktree);
  // Names of equal length, so that git lists them in this order.
  const names = written.map((_, n) => String(n).padStart(8, '0'));
  await Promise.all(written.map(({ content }, n) => writeFile(join(worktree, names[n]!), content!)));
  // `hash-object` would sync each object by itself; this syncs all of them at once.
  const environment = { GIT_INDEX_FILE: join(directory, 'contents-index'), GIT_WORK_TREE: worktree };
  const input = names.map((name) => `${name}\0`).join('');
  await runGit(repository, ['update-index', '--add', '-z', '--stdin'], { environment, input });
  const { output } = await runGit(repository, ['ls-files', '--format=%(objectname)'], { environment });
  const shas = output.toString('latin1').split('\n');
  for (const [n, { path }] of written.entries()) after.get(path)!.sha = shas[n]!;
}

async function writeTree(
  repository: string,
  directory: string,
  { tip, before, after }: { tip: string | null; before: Map<string, File>; after: Map<string, File> },
): Promise<string> {
  const environment = { GIT_INDEX_FILE: join(directory, 'index') };
  if (tip !== null) await runGit(repository, ['read-tree', tip], { environment });
  const removed = [...before.keys()]
    .filter((path) => !after.has(path))
    .map((path) => `0 ${NO_SHA}\t${path}\0`);
  const set = [...after].filter(([path, file]) => before.get(path) !== file);
  const lines = set.map(([path, { mode, sha }]) => `${mode} ${sha}\t${path}\0`);
  const input = [...removed, ...lines].join('');
  const { errors } = await runGit(repository, ['update-index', '-z', '--index-info'], { environment, input });
  // git skips paths that it refuses, prints them, and continues.
  if (errors !== '') throw invalid(errors);
  return (await runGit(repository, ['write-tree'], { environment })).output.toString('latin1').trim();
}

async function writeCommit(
  repository: string,
  tree: string,
  tip: string | null,
  { message, author }: Commit,
): Promise<string> {
  const words = ['commit-tree', ...(tip === null ? [] : ['-p', tip]), '-F', '-', tree];
  const environment = {
    GIT_AUTHOR_NAME: author.name,
    GIT_AUTHOR_EMAIL: author.email,
    GIT_COMMITTER_NAME: author.name,
    GIT_COMMITTER_EMAIL: author.email,
  };
  const input = message.endsWith('\n') ? message : `${message}\n`;
  return (await runGit(repository, words, { environment, input })).output.toString('latin1').trim();
}
