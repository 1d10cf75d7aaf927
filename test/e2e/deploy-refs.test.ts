// Deploys of a tag, a branch or a commit of an app's own repository, and which pushes deploy.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { eventually } from '../support/processes.ts';

/** Timeout in ms. The first deploy of a Cellar resolves the registries' addresses, which may be slow. */
const DEPLOY_MS = 120_000;

test('what pushes do not deploy is stored, and deployed by its name', async () => {
  await using cellar = await new Cellar({ RUNNER_FLEET_DEPLOY_POLL_S: '1' }).start();
  const rpc = rpcOf(cellar);
  const id = await cellar.create('shop');
  const work = await cellar.checkout('hello');
  const git = async (...words: string[]) => (await cellar.git(work, ...words)).stdout.trim();
  const commit = async (text: string): Promise<string> => {
    writeFileSync(join(work, 'index.js'), `export default { fetch: () => new Response('${text}') };\n`);
    await cellar.commit(work, text);
    return git('rev-parse', 'HEAD');
  };
  const push = async (...refs: string[]): Promise<string> => {
    const { code, stderr } = await cellar.git(work, 'push', cellar.remote('shop'), ...refs);
    assert.equal(code, 0, stderr);
    return stderr;
  };
  const serves = (text: string) =>
    eventually(async () => (await cellar.get('shop')).text === text, `it serves ${text}`, DEPLOY_MS);
  const shas = async () => (await rpc('deploys.list', { id })).items.map(({ sha }: { sha: string }) => sha);

  await rpc('builds.set', { id, deploy_on: 'manual' });
  const one = await commit('one');
  await git('tag', 'v1');
  const stored = await push('HEAD:main', 'v1');
  assert.match(stored, /main is stored\. Pushes do not deploy; nothing was deployed\./);
  assert.match(stored, /`cellar deploy --ref main` deploys it\./);
  assert.match(await push('HEAD:topic'), /Pushes do not deploy; nothing was deployed\. With previews on/);
  const deploy = await rpc('deploys.create', { id, ref: 'v1' });
  assert.deepEqual(
    [deploy.sha, deploy.ref, deploy.trigger, deploy.requested_by],
    [one, 'refs/tags/v1', 'redeploy', 'the runner token'],
  );
  await serves('one');

  const two = await commit('two');
  await push('HEAD:main');
  // A poll that deploys the newer app's missed push has checked this app before.
  const other = await cellar.create('probe');
  await cellar.git(work, 'push', join(cellar.data, 'repos', `${other}.git`), 'HEAD:main');
  const deploysOfOther = async () => (await rpc('deploys.list', { id: other })).items.length;
  await eventually(async () => (await deploysOfOther()) > 0, 'the other app is deployed', DEPLOY_MS);
  assert.deepEqual(await shas(), [one], 'no poll deploys what pushes do not');
  assert.equal((await rpc('deploys.create', { id, ref: two.slice(0, 7) })).sha, two);
  await serves('two');

  await rpc('builds.set', { id, deploy_on: 'tags' });
  const three = await commit('three');
  await git('tag', 'v3');
  assert.match(await push('HEAD:main'), /main is stored\. Only pushes of tags deploy; nothing was deployed/);
  assert.match(await push('v3'), /serves this push/);
  assert.equal((await cellar.get('shop')).text, 'three');
  await git('tag', 'v2', two);
  assert.match(await push('v2'), /v2 is stored\. v3 has a higher version; nothing was deployed/);
  await commit('four');
  await git('tag', 'v4');
  const { code } = await cellar.git(work, 'push', join(cellar.data, 'repos', `${id}.git`), 'v4');
  assert.equal(code, 0);
  await serves('four');
  const listed = (await rpc('deploys.list', { id })).items;
  assert.equal(listed[0].ref, 'refs/tags/v4', 'a missed push of a tag is deployed');
  assert.equal(listed[1].sha, three);

  const refusal = (given: object) => rpcOf(cellar)('deploys.create', { id, ...given });
  assert.deepEqual(await refusal({ ref: 'v9' }), {
    code: 'ref_not_found',
    detail: 'Ref: the repository has no tag, branch or commit v9; push it first.',
  });
  const invalid = await refusal({ ref: '--all' });
  assert.equal(invalid.code, 'invalid_input');
  assert.match(invalid.detail, /ref: must be the name of a branch, a tag or a commit/);
  const both = await refusal({ ref: 'v1', deploy_id: deploy.id });
  assert.equal(both.code, 'invalid_input');
  assert.match(both.detail, /ref: must be left out if deploy_id is given/);
});
