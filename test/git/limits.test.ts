// Pushes that make git use much memory: git has a memory limit, and the error names it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { GIT_MEMORY_MB } from '../../runtime/git/program.ts';
import { diffCommits } from '../../runtime/git/source.ts';
import { Refusal } from '../../runtime/refusal.ts';
import { remote } from '../support/git/remote.ts';
import { eventually } from '../support/processes.ts';

const IDENTITY = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', '-c', 'core.compression=1'];
/** Exceeds git's memory limit. In bytes. */
const TOO_LARGE = (GIT_MEMORY_MB + 20) * 2 ** 20;

const inWork = (work: string) => (words: string[], input: Buffer | string) =>
  execFileSync('git', ['-C', work, ...IDENTITY, ...words], { input, encoding: 'utf8' }).trim();

/** Returns the git processes that answer requests for a repository. */
function processesOf(repository: string): { pid: number; command: string; limits: string; score: number }[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .flatMap((pid) => {
      const read = (file: string) => readFileSync(`/proc/${pid}/${file}`, 'latin1');
      try {
        if (!read('environ').includes(`GIT_PROJECT_ROOT=${repository}\0`)) return [];
        const command = read('cmdline').replaceAll('\0', ' ');
        return [{ pid: Number(pid), command, limits: read('limits'), score: Number(read('oom_score_adj')) }];
      } catch {
        return [];
      }
    });
}

test('git and its children have a memory limit, and are killed before apps when memory is short', async (t) => {
  let processes: ReturnType<typeof processesOf> = [];
  const names = [/http-backend/, /receive-pack/, /^cat/];
  const { git, url, repository } = await remote(t, async (_, output) => {
    // The hook also starts `cat`.
    const all = () => {
      processes = processesOf(repository);
      return names.every((name) => processes.some(({ command }) => name.test(command)));
    };
    await eventually(all, 'git and its hook run').finally(() => output.end());
  });
  await git('commit', '--quiet', '--allow-empty', '--message=one');
  const { code, printed } = await git('push', url, 'HEAD:main');
  assert.equal(code, 0, printed);
  const own = Number(readFileSync('/proc/self/oom_score_adj', 'latin1'));
  for (const { command, limits, score } of processes) {
    assert.match(limits, new RegExp(`^Max data size +${GIT_MEMORY_MB * 2 ** 20} `, 'm'), command);
    assert.equal(score, Math.min(1000, own + 800), command);
  }
});

test("a push of a commit larger than git's memory is refused, and its client gets the reason", async (t) => {
  const { git, url, work, repository } = await remote(t);
  const run = inWork(work);
  const head = run(['cat-file', 'commit', run(['commit-tree', '-m', 'one', run(['mktree'], '')], '')], '');
  const large = Buffer.concat([Buffer.from(`${head}\n`), Buffer.alloc(TOO_LARGE, 'x')]);
  const sha = run(['hash-object', '-t', 'commit', '-w', '--stdin'], large);
  const { code, printed } = await git('push', url, `${sha}:refs/heads/large`);
  assert.notEqual(code, 0);
  assert.match(
    printed,
    /remote: this push has a commit, tag or folder that is too large: git may use 256 MiB of memory/,
  );
  assert.deepEqual(readdirSync(`${repository}/objects/pack`), []);
});

/** Commits `levels` of nested folders. Each contains the next one `width` times. @returns the commit's sha */
function nested(work: string, width: number, levels: number, content: string): string {
  const run = inWork(work);
  let entry = `100644 blob ${run(['hash-object', '-w', '--stdin'], content)}`;
  let tree = '';
  for (let level = 0; level < levels; level++) {
    tree = run(['mktree'], Array.from({ length: width }, (_, n) => `${entry}\tfolder-${n}\n`).join(''));
    entry = `040000 tree ${tree}`;
  }
  return run(['commit-tree', '-m', content, tree], '');
}

test('a comparison of nested folders ends at its memory limit or timeout, which its error names', async (t) => {
  const { git, url, work, repository } = await remote(t);
  const [before, later] = ['one', 'two'].map((content) => nested(work, 12, 7, content));
  const { code, printed } = await git('push', url, `${before}:refs/heads/a`, `${later}:refs/heads/b`);
  assert.equal(code, 0, printed);
  await assert.rejects(diffCommits(repository, before!, later!), (error) => {
    assert.ok(error instanceof Refusal, String(error));
    // A slow machine reaches the timeout first.
    assert.match(error.message, /`git diff-tree` (needs more than 256 MiB of memory|took longer than 20 s)/);
    return true;
  });
});

test('a fetch ends when its client disconnects', async (t) => {
  const { git, url, work, repository } = await remote(t);
  // More than the connection's buffers hold, so that git is still writing.
  writeFileSync(join(work, 'large.bin'), randomBytes(40 * 2 ** 20));
  await git('add', '.');
  await git('commit', '--quiet', '--message=large');
  assert.equal((await git('push', url, 'HEAD:main')).code, 0);
  const sha = (await git('rev-parse', 'HEAD')).printed.trim();
  const fetching = request(`${url}/git-upload-pack`, { method: 'POST' });
  fetching.on('error', () => {});
  fetching.setHeader('content-type', 'application/x-git-upload-pack-request');
  fetching.end(`0032want ${sha}\n00000009done\n`);
  await once(fetching, 'response');
  const packing = () => processesOf(repository).find(({ command }) => command.includes('pack-objects'))?.pid;
  await eventually(() => packing() !== undefined, 'git packs');
  // git is stopped, so that it cannot end by itself.
  const pid = packing()!;
  process.kill(pid, 'SIGSTOP');
  fetching.destroy();
  const serving = () => processesOf(repository).some(({ command }) => command.includes('http-backend'));
  await eventually(() => !serving(), 'git has ended').finally(() => process.kill(pid, 'SIGCONT'));
  await eventually(() => processesOf(repository).length === 0, 'what git had started has ended');
});
