// The packet filter's rules for users of builds and apps, with real sockets. It needs root and `nft`.
// Runs as root too.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import fs, { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type CellNetwork, type Endpoint, Firewall, openFirewall } from '../../runtime/isolation/firewall.ts';
import { Isolation } from '../../runtime/isolation/isolation.ts';
import { type AppUsers, asUser, type User } from '../../runtime/isolation/users.ts';
import { NEEDS_RULES, RULES } from '../support/rules.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const TABLE = RULES.replaceAll('-', '_');
const users = (n: number): AppUsers => ({
  build: { uid: 100_000 + n, gid: 100_000 + n },
  cell: { uid: 110_000 + n, gid: 110_000 + n },
});
const NOTHING: CellNetwork = { egress: [], ownPorts: [], proxies: [], openPorts: [] };

async function open(t: TestContext, all: AppUsers[], network = NOTHING): Promise<Firewall> {
  const firewall = await openFirewall(RULES, all, network);
  assert.ok(firewall instanceof Firewall, String(firewall));
  t.after(() => firewall.close());
  for (const each of all) await firewall.cover(each);
  return firewall;
}

/** Returns the rules' set with this name, as nft prints it. */
function listed(set: string): string {
  return execFileSync('nft', ['list', 'set', 'inet', TABLE, set], { encoding: 'utf8' });
}

async function putUp(t: TestContext, registries: () => Promise<Endpoint[]>): Promise<Isolation> {
  const isolation = new Isolation(RULES);
  // Runs before the hook that removes the directory. Otherwise the sandbox probe would make the directory again.
  t.after(() => isolation.close());
  await isolation.open([users(1)], temporaryDirectory(t), registries, NOTHING);
  return isolation;
}

async function listen(t: TestContext): Promise<number> {
  const server: Server = createServer((_, response) => response.end('ok'));
  await new Promise<void>((resolve) => server.listen(0, '::', resolve));
  t.after(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Runs a Node script that can call `get(host, port)`, as `user`. @returns the parsed JSON output */
async function as(user: User, script: string) {
  const program = `
    const get = (host, port) => new Promise((resolve) => {
      const sent = require('node:http').get({ host, port, timeout: 30_000, agent: false }, (response) => { response.resume(); resolve('reached'); });
      sent.on('error', ({ code }) => resolve(code));
      sent.on('timeout', () => { sent.destroy(); resolve('no answer'); });
    });
    const listen = (host) => new Promise((resolve) => {
      const server = require('node:http').createServer((_, response) => response.end('own'));
      server.listen(0, host, () => resolve(server.address().port));
    });
    (async () => { ${script} })().then((found) => { console.log(JSON.stringify(found)); process.exit(); });`;
  const [file, ...words] = [...asUser(user), process.execPath, '-e', program];
  const { stdout } = await promisify(execFile)(file!, words, { env: {}, cwd: '/', timeout: 60_000 });
  return JSON.parse(stdout);
}

/** Starts a process of `user` that listens. @returns its port */
async function listenAs(t: TestContext, user: User): Promise<number> {
  const [file, ...words] = asUser(user);
  const program =
    "const s = require('node:http').createServer((_, r) => r.end('here')); s.listen(0, '::', () => console.log(s.address().port))";
  const child = execFile(file!, [...words, process.execPath, '-e', program], { env: {}, cwd: '/' });
  t.after(() => child.kill('SIGKILL'));
  return Number(await new Promise((resolve) => child.stdout!.once('data', resolve)));
}

const ownAddresses = Object.values(networkInterfaces())
  .flatMap((list) => list ?? [])
  .filter(({ address }) => !address.startsWith('fe80'))
  .map(({ address }) => address);

test('neither a build nor an app reaches a service of this machine', NEEDS_RULES, async (t) => {
  const { build, cell } = users(1);
  const port = await listen(t);
  const script = `return Promise.all(${JSON.stringify(ownAddresses)}.map((host) => get(host, ${port})));`;
  const all = (word: string) => ownAddresses.map(() => word);
  assert.deepEqual(await as(build!, script), all('reached'), 'without rules they do');
  await open(t, [users(1)]);
  assert.deepEqual(await as(build!, script), all('ECONNREFUSED'));
  assert.deepEqual(await as(cell!, script), all('ECONNREFUSED'));
  assert.deepEqual(await as({ uid: 100_009, gid: 100_009 }, script), all('reached'), 'others are left alone');
});

test(
  'neither a build nor an app reaches private networks and metadata, and the refusal is immediate',
  NEEDS_RULES,
  async (t) => {
    await open(t, [users(1)]);
    const hosts = [
      '10.1.2.3',
      '172.20.0.1',
      '192.168.1.1',
      '100.64.1.1',
      '169.254.169.254',
      '168.63.129.16',
      'fd00:ec2::254',
      'fe80::1',
    ];
    const script = `return Promise.all(${JSON.stringify(hosts)}.map((host) => get(host, 80)));`;
    for (const user of Object.values(users(1))) {
      const found: string[] = await as(user!, script);
      // Without a route to an address, often an IPv6 one, the kernel reports that instead of the refusal.
      const allowed = ['ECONNREFUSED', 'ENETUNREACH', 'EHOSTUNREACH', 'EINVAL'];
      for (const [n, code] of found.entries()) assert.ok(allowed.includes(code), `${hosts[n]}: ${code}`);
      assert.equal(found[0], 'ECONNREFUSED');
    }
  },
);

test('an app reaches the addresses that the operator opens, and builds do not', NEEDS_RULES, async (t) => {
  const { build, cell } = users(1);
  const [port, own] = [await listen(t), await listen(t)];
  await open(t, [users(1)], { ...NOTHING, egress: ['127.0.0.1'], ownPorts: [own] });
  const script = `return Promise.all([get('127.0.0.1', ${port}), get('127.0.0.1', ${own}), get('127.0.0.2', ${port})]);`;
  const refused = 'ECONNREFUSED';
  assert.deepEqual(await as(cell!, script), ['reached', refused, refused], 'its own ports stay closed');
  assert.deepEqual(await as(build!, script), [refused, refused, refused]);
});

test('a service that connects for apps does not reach the ports of Cellar', NEEDS_RULES, async (t) => {
  const [proxy, other] = [users(1).cell!, users(2).cell!];
  const [port, own] = [await listen(t), await listen(t)];
  await open(t, [], { ...NOTHING, egress: ['127.0.0.1'], ownPorts: [own], proxies: [proxy] });
  const script = `return Promise.all([get('127.0.0.1', ${port}), get('127.0.0.1', ${own}), get('::1', ${own})]);`;
  assert.deepEqual(await as(proxy, script), ['reached', 'ECONNREFUSED', 'ECONNREFUSED']);
  assert.deepEqual(await as(other, script), ['reached', 'reached', 'reached']);
});

test('an app reaches open ports, on one address, and builds do not', NEEDS_RULES, async (t) => {
  const { build, cell } = users(1);
  const [port, other] = [await listen(t), await listen(t)];
  // One port is both the host's own and open: the rule for own ports does not close it.
  await open(t, [users(1)], { ...NOTHING, ownPorts: [port, other], openPorts: [port] });
  const hosts = ['127.0.0.2', '::1', ...ownAddresses.filter((address) => address !== '127.0.0.1')];
  const script = `return Promise.all([
    get('127.0.0.1', ${port}), get('127.0.0.1', ${other}),
    ...${JSON.stringify(hosts)}.map((host) => get(host, ${port})),
  ]);`;
  const refused = ['ECONNREFUSED', ...hosts.map(() => 'ECONNREFUSED')];
  assert.deepEqual(await as(cell!, script), ['reached', ...refused]);
  assert.deepEqual(await as(build!, script), ['ECONNREFUSED', ...refused]);
});

test('a given port is open to one app, and closed to all others of this machine', NEEDS_RULES, async (t) => {
  const [one, other] = [users(1), users(2)];
  const [port, plain] = [await listen(t), await listen(t)];
  // The operator opens this address to all apps.
  const firewall = await open(t, [one, other], { ...NOTHING, egress: ['127.0.0.1'] });
  const reach = (user: User) => as(user, `return get('127.0.0.1', ${port});`);
  assert.equal(await reach(other.cell!), 'reached');
  await firewall.give(one.cell!, port, true);
  assert.equal(await reach(one.cell!), 'reached');
  for (const user of [other.cell!, one.build!, { uid: 100_009, gid: 100_009 }, { uid: 0, gid: 0 }])
    assert.equal(await reach(user), 'ECONNREFUSED', String(user.uid));
  assert.equal(await as(one.cell!, `return get('127.0.0.2', ${port});`), 'ECONNREFUSED');
  assert.equal(await as(other.cell!, `return get('127.0.0.1', ${plain});`), 'reached');
  await firewall.give(one.cell!, port, false);
  assert.equal(await reach(other.cell!), 'reached', 'the number is free for another program');
});

test('an opened range does not open this machine or metadata to an app', NEEDS_RULES, async (t) => {
  const port = await listen(t);
  await open(t, [users(1)], { ...NOTHING, egress: ['0.0.0.0/0'] });
  const held = `return Promise.all([get('127.0.0.1', ${port}), get('169.254.169.254', 80)]);`;
  assert.deepEqual(await as(users(1).cell!, held), ['ECONNREFUSED', 'ECONNREFUSED']);
});

test(
  'the processes of an app reach each other on loopback, and not those of other apps',
  NEEDS_RULES,
  async (t) => {
    const [one, two] = [users(1).cell!, users(2).cell!];
    await open(t, [users(1), users(2)]);
    const [ownPort, otherPort] = [await listenAs(t, one), await listenAs(t, two)];
    const script = `return Promise.all([get('127.0.0.1', ${ownPort}), get('127.0.0.1', ${otherPort})]);`;
    assert.deepEqual(await as(one, script), ['reached', 'ECONNREFUSED']);
    assert.deepEqual(await as(two, script), ['ECONNREFUSED', 'reached']);
    assert.equal(await as(users(1).build!, `return get('127.0.0.1', ${ownPort});`), 'ECONNREFUSED');
  },
);

test('a build reaches its own listening sockets, and no other build', NEEDS_RULES, async (t) => {
  const [one, two] = [users(1).build!, users(2).build!];
  await open(t, [users(1), users(2)]);
  const hosts = JSON.stringify(ownAddresses);
  const own = `const port = await listen('::'); const found = [];
    for (let round = 0; round < 20; round++) for (const host of ${hosts}) found.push(await get(host, port));
    return [...new Set(found)];`;
  assert.deepEqual(await as(one, own), ['reached']);
  const waits = `const port = await listen('::'); await get('127.0.0.1', port);
    const before = await get('127.0.0.1', 9);
    return [before, await get('127.0.0.1', port)];`;
  assert.deepEqual(await as(one, waits), ['ECONNREFUSED', 'reached'], 'a port that nobody has');
  const port = await listenAs(t, two);
  assert.equal(await as(one, `return get('127.0.0.1', ${port});`), 'ECONNREFUSED');
  assert.equal(await as({ uid: 0, gid: 0 }, `return get('127.0.0.1', ${port});`), 'reached');
});

test(
  'a registry on a private address is let through, by its port, for builds alone',
  NEEDS_RULES,
  async (t) => {
    const firewall = await open(t, [users(1)]);
    const [registry, other] = [await listen(t), await listen(t)];
    await firewall.letBuildsReach([
      { address: '127.0.0.1', port: registry },
      { address: '::1', port: registry },
    ]);
    const script = `return Promise.all([get('127.0.0.1', ${registry}), get('::1', ${registry}), get('127.0.0.1', ${other})]);`;
    assert.deepEqual(await as(users(1).build!, script), ['reached', 'reached', 'ECONNREFUSED']);
    assert.deepEqual(await as(users(1).cell!, script), ['ECONNREFUSED', 'ECONNREFUSED', 'ECONNREFUSED']);
  },
);

test('a later app is covered too', NEEDS_RULES, async (t) => {
  const firewall = await open(t, []);
  const port = await listen(t);
  await firewall.cover(users(3));
  await firewall.cover(users(3));
  const script = `return get('127.0.0.1', ${port});`;
  assert.equal(await as(users(3).build!, script), 'ECONNREFUSED');
  assert.equal(await as(users(3).cell!, script), 'ECONNREFUSED');
});

test('a registry that has moved since the start is reached by the next build', NEEDS_RULES, async (t) => {
  const { build } = users(1);
  const port = await listen(t);
  const script = `return get('127.0.0.1', ${port});`;
  let registries: Endpoint[] = [];
  const isolation = await putUp(t, async () => registries);
  await isolation.cover(users(1));
  await isolation.reach();
  assert.equal(await as(build!, script), 'ECONNREFUSED');
  registries = [{ address: '127.0.0.1', port }];
  await isolation.cover(users(1));
  await isolation.reach();
  assert.equal(await as(build!, script), 'reached');
});

test(
  'only users of the network wait for the registry lookup, and one lookup runs at a time',
  NEEDS_RULES,
  async (t) => {
    const found = Promise.withResolvers<Endpoint[]>();
    let lookups = 0;
    const isolation = await putUp(t, () => {
      lookups++;
      return found.promise;
    });
    await isolation.cover(users(1));
    await isolation.cover(users(2));
    assert.equal(lookups, 1);
    let isReached = false;
    const reached = isolation.reach().then(() => {
      isReached = true;
    });
    await setImmediate();
    assert.equal(isReached, false);
    found.resolve([]);
    await reached;
  },
);

test('rules that another program has removed are installed again', NEEDS_RULES, async (t) => {
  const { build, cell } = users(1);
  const [other, given, registry] = [await listen(t), await listen(t), await listen(t)];
  const isolation = await putUp(t, async () => [{ address: '127.0.0.1', port: registry }]);
  await isolation.cover(users(1));
  await isolation.reach();
  await isolation.givePort(cell, given, true);
  const script = `return Promise.all([${other}, ${given}, ${registry}].map((port) => get('127.0.0.1', port)));`;
  const remove = (verb = 'delete') => execFileSync('nft', [verb, 'table', 'inet', TABLE]);
  const expectRules = async () => {
    assert.deepEqual(await as(build!, script), ['ECONNREFUSED', 'ECONNREFUSED', 'reached']);
    assert.deepEqual(await as(cell!, script), ['ECONNREFUSED', 'reached', 'ECONNREFUSED']);
  };
  await expectRules();
  for (const restore of [
    () => isolation.refresh(),
    () => Promise.all([isolation.cover(users(2)), isolation.cover(users(3))]),
    () => isolation.givePort(cell, other + 1, true),
    () => isolation.givePort(cell, other + 1, false),
  ]) {
    remove();
    await restore();
    await expectRules();
  }
  remove('flush');
  await isolation.refresh();
  await expectRules();
  assert.equal(await as(users(3).cell!, `return get('127.0.0.1', ${other});`), 'ECONNREFUSED');
});

test('a command that fails for another reason leaves the rules alone', NEEDS_RULES, async (t) => {
  // A table that is made again has another handle.
  const table = () => execFileSync('nft', ['-at', 'list', 'table', 'inet', TABLE], { encoding: 'utf8' });
  const firewall = await open(t, [users(1)]);
  const before = table();
  assert.match(before, /handle/);
  await assert.rejects(firewall.letBuildsReach([{ address: '127.0.0.1', port: 70_000 }]), /out of range/);
  assert.equal(table(), before);
});

test('a port that is closed while the rules are installed again is closed', NEEDS_RULES, async (t) => {
  const cell = users(1).cell!;
  const firewall = await open(t, [users(1)]);
  await firewall.give(cell, 4_242, true);
  execFileSync('nft', ['delete', 'table', 'inet', TABLE]);
  await Promise.all([firewall.refresh(), firewall.give(cell, 4_242, false)]);
  assert.doesNotMatch(listed('given_ports'), /4242/);
  await firewall.give(cell, 4_242, false);
});

test('endpoints that cannot be opened do not close earlier ones', NEEDS_RULES, async (t) => {
  const firewall = await open(t, [users(1)]);
  await firewall.letBuildsReach([{ address: '192.0.2.1', port: 4_873 }]);
  await assert.rejects(firewall.letBuildsReach([{ address: '192.0.2.1', port: 70_000 }]));
  execFileSync('nft', ['delete', 'table', 'inet', TABLE]);
  await firewall.refresh();
  assert.match(listed('registries4'), /192\.0\.2\.1 \. 4873/);
});

test('name servers that change after the start are opened', NEEDS_RULES, async (t) => {
  const firewall = await open(t, [users(1)]);
  const before = readFileSync('/etc/resolv.conf', 'utf8');
  t.mock.method(fs, 'readFileSync', () => `${before}\nnameserver 192.0.2.53\n`);
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  await firewall.refresh();
  assert.match(listed('resolvers4'), /192\.0\.2\.53 \. 53/);
});

test('rules of a killed host are replaced, and removed at the end', NEEDS_RULES, async () => {
  const tables = () => execFileSync('nft', ['list', 'tables'], { encoding: 'utf8' });
  const left = await openFirewall(RULES, [users(1)]);
  assert.ok(left instanceof Firewall);
  const firewall = await openFirewall(RULES, [users(2)]);
  assert.ok(firewall instanceof Firewall);
  const rules = execFileSync('nft', ['list', 'table', 'inet', TABLE], { encoding: 'utf8' });
  assert.ok(rules.includes('110002') && !rules.includes('110001'));
  await firewall.close();
  assert.ok(!tables().includes(TABLE));
});
