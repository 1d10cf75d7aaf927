// Deploys of an app from a Git host over SSH: the app's deploy key, and the server's key. With a real sshd.
// Runs as root too.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { commit } from '../support/builds/projects.ts';
import { Cellar } from '../support/e2e/cellar.ts';
import { rpcOf } from '../support/e2e/rpc.ts';
import { NEEDS_SSHD, SshHost } from '../support/git/ssh-host.ts';

const cellar = new Cellar({ RUNNER_EGRESS_ALLOW: '127.0.0.1' });
const host = new SshHost();
const rpc = rpcOf(cellar);
before(async () => {
  if (NEEDS_SSHD.skip === undefined) await Promise.all([host.start(), cellar.start()]);
});
after(async () => {
  await host.close();
  await cellar[Symbol.asyncDispose]();
});

test(
  'the deploy key opens the repository, and a changed key of the server is refused',
  NEEDS_SSHD,
  async () => {
    const { repository, sha } = commit(cellar.directory, { 'index.html': 'over SSH' });
    const url = host.url(repository);
    const id = await cellar.create('ssh');
    const { deploy_key } = await rpc('source.connect', { id, url, deploy_on: 'manual' });
    const refused = await rpc('source.sync', { id });
    assert.match(refused.detail, /does not accept the deploy key/);

    host.allow(deploy_key);
    assert.equal((await rpc('source.sync', { id })).sha, sha);
    const { host_keys } = await rpc('source.get', { id });
    assert.equal(host_keys.length, 1);
    assert.match(host_keys[0].fingerprint, /^SHA256:[A-Za-z\d+/]{43}$/);

    await host.stop();
    await host.start();
    assert.match(
      (await rpc('source.sync', { id })).detail,
      /key of the SSH server localhost has changed since the first/,
    );
    assert.deepEqual((await rpc('source.get', { id })).host_keys, host_keys);
    await rpc('source.disconnect', { id });
    const again = await rpc('source.connect', { id, url, deploy_on: 'manual' });
    assert.notEqual(again.deploy_key, deploy_key);
    host.allow(again.deploy_key);
    assert.equal((await rpc('source.sync', { id })).sha, sha);
  },
);
