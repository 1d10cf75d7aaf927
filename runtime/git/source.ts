// Reads a repository: commits, trees, files, and diffs between two commits. Trees and diffs may be very large, so call
// `listTree`, `findEntry` and `diffCommits` through `source-thread.ts`.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MAX_ENTRIES } from '../../bundler/limits.ts';
import { ChildError } from '../processes/child.ts';
import { Refusal } from '../refusal.ts';
import { runGit } from './git.ts';
import { DEPLOY_REF } from './repository.ts';

/** Hash of the empty tree, which git resolves in every repository. */
const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';
const DIFF_LIMIT_BYTES = 1024 * 1024;
/** Maximum bytes of a listing. Trees may repeat a subtree, so a small push may name very many files. */
const LISTING_BYTES = 32 * 2 ** 20;
/** Maximum number of files listed in a diff. */
const DIFF_FILES = 3_000;

export interface TreeEntry {
  /** From the root of the repository. */
  path: string;
  /** `commit`: a submodule. */
  type: 'blob' | 'tree' | 'commit';
  /** Six octal digits, as in git. */
  mode: string;
  /** Size of a file in bytes; null for a folder or a submodule. */
  size: number | null;
  sha: string;
}

export interface DiffFile {
  path: string;
  /** The path before a rename; null for a file that was not renamed. */
  from_path: string | null;
  status: 'added' | 'modified' | 'deleted' | 'renamed';
  /** Number of added lines; null for binary files. */
  additions: number | null;
  /** Number of deleted lines; null for binary files. */
  deletions: number | null;
}

export interface Diff {
  from: string | null;
  to: string | null;
  files: DiffFile[];
  /** Unified, with git's headers. */
  diff: string;
  /** Whether text or files are incomplete. */
  truncated: boolean;
}

/** Returns the commit that a ref or a hash names, also an abbreviated hash; null when there is none. */
export async function resolveCommit(repository: string, ref: string): Promise<string | null> {
  try {
    const words = ['rev-parse', '--verify', '--quiet', '--end-of-options', `${ref}^{commit}`];
    return (await runGit(repository, words, { limitBytes: 1000 })).output.toString('utf8').trim();
  } catch (error) {
    if (error instanceof ChildError && error.exitCode !== null) return null;
    throw error;
  }
}

/**
 * Returns the commit that main is at; null before the first push. Runs git only if the branch has no file of its own.
 * With thousands of apps, a process for each would delay the start of Cellar by half a minute.
 * @throws {ChildError} when the repository cannot be read
 */
export async function deployTip(repository: string): Promise<string | null> {
  const text = await readFile(join(repository, DEPLOY_REF), 'latin1').catch(() => '');
  return /^[0-9a-f]{40}\n$/.test(text) ? text.trimEnd() : resolveCommit(repository, DEPLOY_REF);
}

/**
 * Like `resolveCommit`, but throws for a missing commit. Without a ref, returns the tip of main; null before the first push.
 * @throws {Refusal} `ref_not_found`
 */
export async function requireCommit(repository: string, ref: string | null): Promise<string | null> {
  const sha = await resolveCommit(repository, ref ?? DEPLOY_REF);
  if (sha === null && ref !== null)
    throw new Refusal(404, 'ref_not_found', `the repository has no commit ${ref}`);
  return sha;
}

/**
 * Returns the base commit of a comparison. For `<commit>~1` or `<commit>^` of a branch's first commit, returns null: the
 * repository was empty.
 * @throws {Refusal} `ref_not_found`
 */
export async function requireBase(repository: string, ref: string): Promise<string | null> {
  const child = /^(.+?)(?:~1|\^)$/.exec(ref)?.[1];
  if (child === undefined || (await resolveCommit(repository, ref)) !== null)
    return requireCommit(repository, ref);
  await requireCommit(repository, child);
  return null;
}

/** A page of a list, and whether more follow. */
export interface TreePage {
  items: TreeEntry[];
  more: boolean;
}

/**
 * Lists a commit's files, in git's order.
 * @param path of a directory; empty for the root
 * @throws {Refusal} `path_not_found`, and `invalid_input` for more files than a build could check out
 */
export async function listTree(
  repository: string,
  commit: string,
  { path, recursive, offset, limit }: { path: string; recursive: boolean; offset: number; limit: number },
): Promise<TreePage> {
  const directory = path.replace(/\/+$/, '');
  const entry = directory === '' ? null : await findEntry(repository, commit, directory);
  if (entry && entry.type !== 'tree') {
    throw new Refusal(404, 'path_not_found', `${directory} is not a directory`);
  }
  const words = ['ls-tree', '-z', '--full-tree', ...(recursive ? ['-r'] : []), entry?.sha ?? commit];
  const entries = await listEntries(repository, words, directory === '' ? '' : `${directory}/`);
  const items = await withSizes(repository, entries.slice(offset, offset + limit));
  return { items, more: offset + limit < entries.length };
}

/** Adds file sizes. `ls-tree -l` opens each file for its size, which takes minutes where trees repeat. */
async function withSizes(repository: string, entries: TreeEntry[]): Promise<TreeEntry[]> {
  const files = entries.filter(({ type }) => type === 'blob');
  if (files.length === 0) return entries;
  const input = files.map(({ sha }) => `${sha}\n`).join('');
  const words = ['cat-file', '--batch-check=%(objectname) %(objectsize)'];
  const { output } = await runGit(repository, words, { input, limitBytes: LISTING_BYTES });
  const sizes = new Map(
    output
      .toString('latin1')
      .split('\n')
      .map((line) => line.split(' ') as [string, string]),
  );
  return entries.map((entry) =>
    entry.type === 'blob' ? { ...entry, size: Number(sizes.get(entry.sha)) } : entry,
  );
}

/**
 * Runs a `git ls-tree -z` and returns its entries.
 * @param words arguments of git @param prefix goes before each path
 * @throws {Refusal} `invalid_input` for more entries than a build could check out
 */
export async function listEntries(repository: string, words: string[], prefix = ''): Promise<TreeEntry[]> {
  const { output, cut } = await runGit(repository, words, { limitBytes: LISTING_BYTES, longer: 'cut' });
  const entries = cut ? [] : parseEntries(output, prefix);
  if (cut || entries.length > MAX_ENTRIES) throw tooMany('the commit');
  return entries;
}

function tooMany(what: string): Refusal {
  const most = `${MAX_ENTRIES} files and folders, or ${LISTING_BYTES / 2 ** 20} MiB of their names`;
  return new Refusal(400, 'invalid_input', `${what} has more than ${most}`);
}

/** @throws {Refusal} `path_not_found` */
export async function findEntry(repository: string, commit: string, path: string): Promise<TreeEntry> {
  const missing = new Refusal(404, 'path_not_found', `commit ${commit} has no ${path}`);
  // git would treat an absolute path, or one with `..`, as a path of this machine.
  if (path.startsWith('/') || path.split('/').includes('..')) throw missing;
  const words = ['ls-tree', '-z', '-l', '--full-tree', commit, '--', path];
  const [entry] = await listEntries(repository, words);
  if (entry?.path !== path) throw missing;
  return entry;
}

/** Returns the diff between two commits. Null means an empty repository. */
export async function diffCommits(repository: string, from: string | null, to: string | null): Promise<Diff> {
  const trees = [from ?? EMPTY_TREE, to ?? EMPTY_TREE];
  const words = ['diff-tree', '-r', '-M', '--no-ext-diff', '--no-textconv', '--no-color'];
  const listing = await runGit(repository, [...words, '-z', '--raw', '--numstat', ...trees], {
    limitBytes: LISTING_BYTES,
    longer: 'cut',
  });
  if (listing.cut) throw tooMany('the difference');
  const text = await runGit(repository, [...words, '--patch', ...trees], {
    limitBytes: DIFF_LIMIT_BYTES,
    longer: 'cut',
  });
  const files = parseFiles(listing.output.toString('utf8').split('\0'));
  const whole = text.output.toString('utf8');
  return {
    from,
    to,
    files: files.slice(0, DIFF_FILES),
    // A cut may have split a line or a character.
    diff: text.cut ? whole.slice(0, whole.lastIndexOf('\n') + 1) : whole,
    truncated: text.cut || files.length > DIFF_FILES,
  };
}

/** Parses `ls-tree -z`: `<mode> <type> <sha>\t<path>`, with `<size>` after the sha for `-l`. */
function parseEntries(output: Buffer, prefix: string): TreeEntry[] {
  return output
    .toString('utf8')
    .split('\0')
    .filter((line) => line !== '')
    .map((line) => {
      const tab = line.indexOf('\t');
      const [mode = '', type = '', sha = '', size = '-'] = line.slice(0, tab).split(/ +/);
      return {
        path: prefix + line.slice(tab + 1),
        type: type as TreeEntry['type'],
        mode,
        size: size === '-' ? null : Number(size),
        sha,
      };
    });
}

const STATUSES: Record<string, DiffFile['status']> = { A: 'added', D: 'deleted', R: 'renamed' };

/** Parses `--raw --numstat -z`: first all files' modes and status, then all files' counts. */
function parseFiles(fields: string[]): DiffFile[] {
  const files = new Map<string, DiffFile>();
  for (let at = 0; at < fields.length - 1; ) {
    const field = fields[at++]!;
    if (field.startsWith(':')) {
      const letter = field.split(' ')[4]![0]!;
      const from_path = letter === 'R' ? fields[at++]! : null;
      const path = fields[at++]!;
      const status = STATUSES[letter] ?? 'modified';
      files.set(path, { path, from_path, status, additions: null, deletions: null });
    } else {
      const [added, deleted, ...rest] = field.split('\t');
      // A name may have tabs.
      const named = rest.join('\t');
      // A rename's counts have an empty name, followed by both names.
      if (named === '') at++;
      const file = files.get(named || fields[at++]!)!;
      file.additions = added === '-' ? null : Number(added);
      file.deletions = deleted === '-' ? null : Number(deleted);
    }
  }
  return [...files.values()];
}
