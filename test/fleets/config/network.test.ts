// Which addresses of its machine a Worker can reach, with real listeners and real addresses.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { temporaryDirectory } from '../../support/temporary.ts';

const REACH = fileURLToPath(new URL('../../support/fleets/reach.ts', import.meta.url));
const own = Object.values(networkInterfaces())
  .flatMap((list) => list ?? [])
  .filter(({ address }) => !address.startsWith('fe80'))
  .map(({ address }) => address);
/** Addresses that a machine may have though they look public, and IPv6 forms of addresses of other networks. */
const TAKEN = [
  '127.0.0.1',
  '::1',
  '8.8.4.4',
  '192.0.2.77',
  '198.18.0.1',
  '198.51.100.7',
  '203.0.113.7',
  '100.64.0.1',
  '168.63.129.16',
  '2606:4700::1111',
  'fec0::1',
  'fd00:ec2::254',
  '::ffff:8.8.4.4',
  '::10.0.0.1',
  '64:ff9b::10.0.0.1',
  '64:ff9b::808:404',
  '2002:a00:1::1',
  '2002:808:404::1',
  '2001:db8::7',
];
const canTake = spawnSync('unshare', ['--net', 'ip', 'link', 'set', 'lo', 'up']).status === 0;
const NEEDS_NETWORK = canTake ? {} : { skip: 'no network namespace can be made here, or `ip` is missing' };

async function reach(t: TestContext, before: string[], words: string[]) {
  const directory = temporaryDirectory(t);
  const [file, ...rest] = [...before, process.execPath, REACH, directory, ...words];
  const { stdout } = await promisify(execFile)(file!, rest, { timeout: 100_000 });
  return JSON.parse(stdout) as { worker: string[]; process: string[] };
}

test('a Worker reaches no address of this machine', async (t) => {
  const found = await reach(t, [], own);
  assert.deepEqual(found.worker, []);
  assert.ok(found.process.length > 0, 'this process reaches its own');
});

test(
  'a Worker reaches no public-looking local address and no IPv6 form of another network',
  NEEDS_NETWORK,
  async (t) => {
    const found = await reach(t, ['unshare', '--net'], ['take', ...TAKEN]);
    assert.deepEqual(found.worker, []);
    assert.deepEqual(found.process, TAKEN);
  },
);

test(
  'the operator can open networks, but this machine and metadata services only by their exact addresses',
  NEEDS_NETWORK,
  async (t) => {
    const networks = ['10.9.0.0/16', '100.64.0.0/10', '169.254.0.0/16', 'fd00::/16'];
    const reachable = [
      '10.9.1.1',
      '100.64.0.9',
      '100.100.100.200',
      '169.254.169.254',
      'fd00::9',
      'fd00:ec2::254',
    ];
    const mine = ['127.0.0.1', '10.1.2.3'];
    const opened = async (allow: string) => {
      const words = ['take', `allow=${allow}`, ...networks, ...mine, ...reachable];
      const found = await reach(t, ['unshare', '--net'], words);
      assert.deepEqual(found.process, [...mine, ...reachable]);
      return found.worker;
    };
    const some = '10.0.0.0/8,100.64.0.0/10,127.0.0.1,fc00::/7';
    assert.deepEqual(await opened(some), ['127.0.0.1', '10.9.1.1', '100.64.0.9', 'fd00::9']);
    assert.deepEqual(await opened('0.0.0.0/0'), ['10.9.1.1', '100.64.0.9']);
    assert.deepEqual(await opened('10.1.2.3,169.254.169.254'), ['10.1.2.3', '169.254.169.254']);
  },
);
