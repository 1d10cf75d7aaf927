// A push to a nearly full disk. It needs a file system of its own, which only root can mount.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FLOOR_MB, remote } from '../support/git/remote.ts';

test('a push keeps the minimum of free disk space: a larger one is refused by its size and leaves nothing', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'cellar-disk-'));
  t.after(() => rmdirSync(directory));
  const size = `size=${FLOOR_MB + 30}m`;
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', size, 'tmpfs', directory]);
  if (mounted.status !== 0) return t.skip('no disk can be mounted here');
  try {
    const { git, url, work, repository } = await remote(t, undefined, directory);
    const push = async (megabytes: number) => {
      writeFileSync(join(work, `${megabytes}.bin`), randomBytes(megabytes * 2 ** 20));
      await git('add', '.');
      await git('commit', '--quiet', `--message=${megabytes} MiB`);
      return git('push', url, 'HEAD:main');
    };
    const small = await push(2);
    assert.equal(small.code, 0, small.printed);
    const large = await push(9);
    assert.notEqual(large.code, 0);
    assert.match(large.printed, /remote: fatal: pack exceeds maximum allowed size/);
    const listed = execFileSync('git', ['--git-dir', repository, 'count-objects', '--verbose'], {
      encoding: 'utf8',
    });
    assert.match(listed, /^count: 3$/m);
    assert.match(listed, /^garbage: 0$/m);
  } finally {
    execFileSync('umount', ['--lazy', directory]);
  }
});
