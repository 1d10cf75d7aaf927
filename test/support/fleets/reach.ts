// Prints which addresses of this machine a Worker can reach, and which this process can: `{worker: [...], process: [...]}`.
// Arguments: a directory for the release, then addresses. The word `take` before the addresses assigns them to the loopback
// interface; run that under `unshare --net`. For a network (`address/length`), a route to this machine is added, but no
// address is assigned. `allow=` lists the private addresses that the operator opens to apps.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, BlockList } from 'node:net';
import { join } from 'node:path';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { call, cellOptions, makeRelease } from './release.ts';

const CODE = `export default { async fetch(request) {
  const to = new URL(request.url).searchParams.get('to');
  try { return new Response(await (await fetch(to, { signal: AbortSignal.timeout(5000) })).text()); }
  catch (error) { return new Response('refused'); }
} }`;

const [directory, ...given] = process.argv.slice(2);
const words = given.filter((word) => !/[=/]/.test(word));
const networks = given.filter((word) => /^[^=]*\//.test(word));
const egress = given.flatMap((word) => (word.startsWith('allow=') ? word.slice(6).split(',') : []));
const take = words[0] === 'take';
const addresses = take ? words.slice(1) : words;
if (take) {
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  // An IPv4-mapped IPv6 address is not assigned: it works once its IPv4 address is assigned.
  const routed = new BlockList();
  for (const network of networks) {
    const [from = '', length] = network.split('/');
    routed.addSubnet(from, Number(length), from.includes(':') ? 'ipv6' : 'ipv4');
  }
  const isRouted = (address: string) => routed.check(address, address.includes(':') ? 'ipv6' : 'ipv4');
  for (const address of addresses.filter((each) => !each.startsWith('::ffff:') && !isRouted(each))) {
    const length = address.includes(':') ? 128 : 32;
    execFileSync('ip', ['address', 'replace', `${address}/${length}`, 'dev', 'lo']);
  }
}
for (const network of networks) execFileSync('ip', ['route', 'add', 'local', network, 'dev', 'lo']);
const server = createServer((_, response) => response.end('reached'));
server.listen(0, '::');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
const release = await makeRelease(`${directory}/release`, CODE);
const options = await cellOptions(directory!, release.directory);
const { config } = await new CellFilesCache(join(directory!, 'run'), 512, { egress }).of(release.directory);
const cell = await startCell({ ...options, config });
const found = { worker: [] as string[], process: [] as string[] };
for (const address of addresses) {
  const url = `http://${address.includes(':') ? `[${address}]` : address}:${port}/`;
  const answer = await call(cell.socketPath('http'), `/?to=${encodeURIComponent(url)}`);
  if (answer.text === 'reached') found.worker.push(address);
  const own = await fetch(url, { signal: AbortSignal.timeout(30_000) }).catch(() => null);
  if (own?.status === 200) found.process.push(address);
}
await cell.stop();
console.log(JSON.stringify(found));
process.exit(0);
