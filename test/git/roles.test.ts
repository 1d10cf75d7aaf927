// What each role may do with git, with stock git as the client.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitIn, remote } from '../support/git/remote.ts';

type Remote = Awaited<ReturnType<typeof remote>>;

/** Adds a commit to the working copy. @returns its sha */
async function commit({ git }: Remote, message: string): Promise<string> {
  await git('commit', '--quiet', '--allow-empty', `--message=${message}`);
  return (await git('rev-parse', 'HEAD')).printed.trim();
}

async function refsOf({ repository }: Remote): Promise<Record<string, string>> {
  const { printed } = await gitIn(repository)('for-each-ref', '--format=%(refname) %(objectname)');
  return Object.fromEntries(
    printed
      .trim()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split(' ') as [string, string]),
  );
}

test('push creates branches and tags and fast-forwards; it can neither force-push nor delete', async (t) => {
  const app = await remote(t);
  const { git, as } = app;
  const first = await commit(app, 'first');
  await git('tag', 'v1');
  const created = await git('push', as('push'), 'HEAD:main', 'HEAD:side', 'v1');
  assert.equal(created.code, 0, created.printed);
  const second = await commit(app, 'second');
  assert.equal((await git('push', as('push'), 'HEAD:main')).code, 0);

  await git('reset', '--quiet', '--hard', first);
  await commit(app, 'elsewhere');
  const forced = await git('push', '--force', as('push'), 'HEAD:main');
  assert.notEqual(forced.code, 0);
  assert.match(forced.printed, /remote rejected.*non-fast-forward/);
  const deleted = await git('push', as('push'), ':side');
  assert.notEqual(deleted.code, 0);
  assert.match(deleted.printed, /deletion prohibited/);
  assert.deepEqual(await refsOf(app), {
    'refs/heads/main': second,
    'refs/heads/side': first,
    'refs/tags/v1': first,
  });
});

test('admin force-pushes and deletes, main too', async (t) => {
  const app = await remote(t);
  const { git, url } = app;
  const first = await commit(app, 'first');
  await commit(app, 'second');
  await git('push', url, 'HEAD:main', 'HEAD:side');
  await git('reset', '--quiet', '--hard', first);
  const rewound = await git('push', '--force', url, 'HEAD:main', ':side');
  assert.equal(rewound.code, 0, rewound.printed);
  assert.deepEqual(await refsOf(app), { 'refs/heads/main': first });
  const gone = await git('push', url, ':main');
  assert.equal(gone.code, 0, gone.printed);
  assert.deepEqual(await refsOf(app), {});
});

test('view fetches and cannot begin a push', async (t) => {
  const app = await remote(t);
  const { git, as, url, seen } = app;
  const first = await commit(app, 'first');
  await git('push', url, 'HEAD:main');
  assert.match((await git('ls-remote', as('view'))).printed, /refs\/heads\/main/);
  const pushed = await git('push', as('view'), 'HEAD:other');
  assert.notEqual(pushed.code, 0);
  assert.match(pushed.printed, /403/);
  assert.equal(seen.at(-1)!.path, 'info/refs', 'nothing was sent');
  assert.deepEqual(await refsOf(app), { 'refs/heads/main': first });
});
