// Projects for tests: files in a real git repository, and builds of them.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { newId } from '../../../handlers/contract/id.ts';
import { DeployLog } from '../../../runtime/builds/deploy/deploy-log.ts';
import { build } from '../../../runtime/builds/release/build.ts';
import { type BuildInput, NO_SETTINGS } from '../../../runtime/builds/release/build-input.ts';
import { removeTree } from '../../../runtime/disk/remove.ts';
import { Isolation } from '../../../runtime/isolation/isolation.ts';
import { emptyNames } from '../../../runtime/storage/names.ts';

/** By path: a file's text, or the target of a symbolic link. */
export type Files = Record<string, string | { link: string }>;

export function writeFiles(directory: string, files: Files): void {
  for (const [path, content] of Object.entries(files)) {
    const full = join(directory, path);
    mkdirSync(dirname(full), { recursive: true });
    if (typeof content === 'string') writeFileSync(full, content);
    else symlinkSync(content.link, full);
  }
}

/** Makes a temporary directory for a test file. `remove` deletes it. */
export function makeDirectory(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'cellar-build-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export function exampleApp(name: string): string {
  return join(import.meta.dirname, '../../apps', name);
}

/** Commits files, or a copy of a directory, to a new repository. */
export function commit(directory: string, content: Files | string): { repository: string; sha: string } {
  const work = mkdtempSync(join(directory, 'work-'));
  const git = (...rest: string[]) => execFileSync('git', ['-C', work, ...rest], { encoding: 'utf8' }).trim();
  git('init', '--quiet', '--template=', '--initial-branch=main');
  if (typeof content === 'string') {
    cpSync(content, work, { recursive: true, filter: (path) => !/\/(node_modules|dist)$/.test(path) });
  } else {
    writeFiles(work, content);
  }
  git('add', '--all', '--force');
  const identity = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
  git(...identity, 'commit', '--quiet', '--allow-empty', '--message', 'A commit');
  return { repository: join(work, '.git'), sha: git('rev-parse', 'HEAD') };
}

/** Builds a commit as the host does. `lines` are those of the deploy's log. */
export async function buildCommit(
  directory: string,
  content: Files | string,
  more: Partial<BuildInput> = {},
) {
  const lines: string[] = [];
  const deployId = newId();
  const log = new DeployLog({ onLine: (line) => lines.push(line), onSteps: () => {} });
  const input: BuildInput = {
    deployId,
    appId: 'app',
    ref: 'refs/heads/main',
    url: 'http://app.localhost:8787',
    ...commit(directory, content),
    scratch: join(directory, `scratch-${deployId}`),
    releaseDirectory: join(directory, `release-${deployId}`),
    cacheDirectory: join(directory, 'cache'),
    env: {},
    settings: NO_SETTINGS,
    user: null,
    storage: emptyNames(),
    requireOutside: async () => {},
    keyOf: async ({ script, className }) => `${script}-${className}`,
    certificateOf: async (named) => ({ ...named, chain: '', sealedKey: null }),
    liveReleaseDirectory: null,
    isPreview: false,
    isolation: new Isolation('cellar-unused'),
    limits: { stepTimeoutMs: 600_000, worktreeMb: 500, cacheMb: 512, floorMb: 256, memoryMb: 2048 },
    log,
    signal: new AbortController().signal,
    ...more,
  };
  const result = build(input).then(async (built) => {
    await built.beforeLive?.();
    await built.tidy();
    await removeTree(input.scratch);
    return built;
  });
  return { input, lines, log, result };
}
