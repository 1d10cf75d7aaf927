// The proxy of a browser (SOCKS5, RFC 1928): connects the browser to the addresses that apps may connect to.
import { lookup } from 'node:dns/promises';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import type { FairQueue } from '../queues/fair-queue.ts';
import type { AppAddresses } from './app-addresses.ts';

const VERSION = 5;
const CONNECT = 1;
const REPLY = { ok: 0, notAllowed: 2, unreachable: 4, unsupported: 7 };
/** Kinds of addresses in a SOCKS5 request. */
const [IPV4, NAME, IPV6] = [1, 3, 4];
/** Idle timeout of a connection until it is established, in ms: for the SOCKS5 request, the DNS lookup and the connect. */
const TIMEOUT_MS = 30_000;
/** Idle timeout of an established connection, in ms. */
const SILENCE_MS = 10 * 60_000;

/**
 * Serves one connection of a browser, whose stream is paused. Never rejects.
 * @param lookups the queue of DNS lookups
 */
export async function serveSocks(client: Socket, addresses: AppAddresses, lookups: FairQueue): Promise<void> {
  client.setTimeout(TIMEOUT_MS, () => client.destroy());
  try {
    const [version, methods] = await read(client, 2);
    if (version !== VERSION) throw new Error('not SOCKS5');
    await read(client, methods!);
    client.write(Uint8Array.of(VERSION, 0));
    const [, command, , kind] = await read(client, 4);
    const host = await readHost(client, kind!);
    const port = (await read(client, 2)).readUInt16BE();
    if (command !== CONNECT || host === null) return void client.end(reply(REPLY.unsupported));
    await connect(client, { host, port }, addresses, lookups);
  } catch {
    client.destroy();
  }
}

async function connect(
  client: Socket,
  { host, port }: { host: string; port: number },
  addresses: AppAddresses,
  lookups: FairQueue,
): Promise<void> {
  // Connects to an address that was checked: a second lookup of the name could return another one.
  const known = isIP(host)
    ? [{ address: host }]
    : await lookups.run({ owner: '' }, () => addressesOf(client, host));
  const allowed = known.filter(({ address }) => addresses.has(address));
  if (allowed.length === 0)
    return void client.end(reply(known.length === 0 ? REPLY.unreachable : REPLY.notAllowed));
  if (client.destroyed) return;
  const families = new Map(allowed.map(({ address }) => [isIP(address), address]));
  // IPv4 first, because many machines have no IPv6.
  const server = netConnect({ host: families.get(4) ?? families.get(6)!, port, allowHalfOpen: true });
  server.setTimeout(TIMEOUT_MS, () => server.destroy());
  client.on('close', () => server.destroy());
  server.on('error', () => {
    if (server.connecting || server.bytesRead === 0) client.end(reply(REPLY.unreachable));
    else client.destroy();
  });
  server.on('connect', () => {
    for (const socket of [client, server]) socket.setTimeout(SILENCE_MS);
    client.write(reply(REPLY.ok));
    server.on('close', () => client.destroy());
    client.pipe(server);
    server.pipe(client);
  });
}

/** Returns the addresses of a name; none if the lookup fails, or the browser has disconnected. */
async function addressesOf(client: Socket, name: string): Promise<{ address: string }[]> {
  if (client.destroyed) return [];
  return lookup(name, { all: true, verbatim: true }).catch(() => []);
}

async function readHost(client: Socket, kind: number): Promise<string | null> {
  if (kind === IPV4) return (await read(client, 4)).join('.');
  if (kind === NAME) return (await read(client, (await read(client, 1))[0]!)).toString('latin1');
  if (kind !== IPV6) return null;
  const bytes = await read(client, 16);
  return Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(2 * index).toString(16)).join(':');
}

/** Returns the next `bytes` bytes of a paused stream. @throws {Error} when the stream ends before them */
export async function read(socket: Socket, bytes: number): Promise<Buffer> {
  if (bytes === 0) return Buffer.alloc(0);
  for (;;) {
    const chunk = socket.read(bytes) as Buffer | null;
    if (chunk?.length === bytes) return chunk;
    if (socket.destroyed || socket.readableEnded || chunk !== null) throw new Error('the connection ended');
    await new Promise<void>((resolve) => {
      const events = ['readable', 'end', 'close', 'error'];
      const done = () => {
        for (const event of events) socket.off(event, done);
        resolve();
      };
      for (const event of events) socket.on(event, done);
    });
  }
}

function reply(code: number): Uint8Array {
  return Uint8Array.of(VERSION, code, 0, IPV4!, 0, 0, 0, 0, 0, 0);
}
