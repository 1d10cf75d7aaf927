// A container's access to the internet: an HTTP proxy, which connects only to addresses that the container's app may reach.
import { lookup } from 'node:dns/promises';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { isIP, connect as netConnect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { AppAddresses } from '../browser/app-addresses.ts';
import { FairQueue } from '../queues/fair-queue.ts';
import { join } from './join.ts';

/** Timeout for the head of a request, and for connecting to its server, in ms. */
const TIMEOUT_MS = 30_000;
/** Idle timeout of a connection, in ms. */
const SILENCE_MS = 10 * 60_000;
const CONNECTIONS = 128;
/**
 * Maximum number of concurrent name lookups: libuv uses at most half of its threads for them (`UV_THREADPOOL_SIZE` is 32).
 */
const LOOKUPS = 16;
const LOOKUPS_OF_OWNER = 4;
const HTTP_PORT = 80;
/** Headers that a proxy must not pass on. */
const HOP = [
  'proxy-connection',
  'proxy-authorization',
  'connection',
  'keep-alive',
  'te',
  'trailer',
  'upgrade',
];
const OK = 200;
const BAD_GATEWAY = 502;

/** Name lookups of all containers. Names that resolve slowly must delay only the containers of their own account. */
const lookups = new FairQueue({
  name: 'lookups',
  running: LOOKUPS,
  runningPerOwner: LOOKUPS_OF_OWNER,
  waitingPerOwner: 1024,
});

/** Finds an address of a URL's host that the container may reach; null for none. */
type Find = (url: URL) => Promise<string | null> | null;

/**
 * Returns the proxy of one container.
 * @param owner the account of its app
 * @param isOpen whether the container may reach the internet now
 */
export function egressProxy(addresses: AppAddresses, owner: string, isOpen: () => boolean): Server {
  const find = (url: URL) => (isOpen() ? addressOf(url.hostname, addresses, owner) : null);
  const server = createServer(
    { headersTimeout: TIMEOUT_MS, maxHeaderSize: 16_384 },
    (asked, response) => void forward(asked, response, find).catch(() => response.destroy()),
  );
  server.on('connect', (asked: IncomingMessage, client: Duplex, head: Buffer) => {
    client.on('error', () => client.destroy());
    void tunnel(asked.url ?? '', client, head, find);
  });
  server.maxConnections = CONNECTIONS;
  server.timeout = SILENCE_MS;
  return server;
}

async function tunnel(target: string, client: Duplex, head: Buffer, find: Find): Promise<void> {
  const url = URL.parse(`http://${target}`);
  const found = url && (await find(url));
  if (found === null) return void client.end(`HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n`);
  const server = netConnect({ host: found, port: portOf(url!), allowHalfOpen: true });
  server.setTimeout(TIMEOUT_MS, () => server.destroy());
  client.on('close', () => server.destroy());
  server.on('error', () => {
    if (server.bytesRead === 0 && server.bytesWritten === 0)
      client.end('HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n');
    else client.destroy();
  });
  server.on('connect', () => {
    server.setTimeout(SILENCE_MS);
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    server.write(head);
    join(client, server);
  });
}

async function forward(asked: IncomingMessage, response: ServerResponse, find: Find): Promise<void> {
  const url = URL.parse(asked.url ?? '');
  const found = url?.protocol === 'http:' ? await find(url) : null;
  if (found === null) {
    response.writeHead(403).end('This address is not open to containers of this app.\n');
    return;
  }
  const headers = { ...asked.headers, host: url!.host };
  for (const name of HOP) delete headers[name as keyof typeof headers];
  const onward = request(
    {
      host: found,
      port: portOf(url!),
      method: asked.method,
      path: `${url!.pathname}${url!.search}`,
      headers,
      agent: false,
      // Counts until the connection is made, then `SILENCE_MS` does.
      timeout: TIMEOUT_MS,
    },
    (answer) => {
      for (const name of HOP) delete answer.headers[name];
      const { statusCode: status = 0 } = answer;
      response.writeHead(status < OK ? BAD_GATEWAY : status, answer.headers);
      answer.on('error', () => response.destroy());
      answer.pipe(response);
    },
  );
  onward.setTimeout(SILENCE_MS, () => onward.destroy());
  onward.on('error', () => {
    if (response.headersSent) response.destroy();
    else response.writeHead(BAD_GATEWAY).end();
  });
  response.on('close', () => onward.destroy());
  asked.pipe(onward);
}

/**
 * Finds an address of a host that the app may reach; null for none. The caller connects to this address, not to the name.
 */
async function addressOf(hostname: string, addresses: AppAddresses, owner: string): Promise<string | null> {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const found = isIP(host)
    ? [{ address: host, family: isIP(host) }]
    : await lookups.run({ owner }, () => lookup(host, { all: true, verbatim: true })).catch(() => []);
  const allowed = found.filter(({ address }) => addresses.has(address));
  // Prefers IPv4, because many machines have no IPv6.
  return (allowed.find(({ family }) => family === 4) ?? allowed[0])?.address ?? null;
}

function portOf(url: URL): number {
  return Number(url.port) || HTTP_PORT;
}
