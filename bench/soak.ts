// Mixed traffic on the gateway for a long time, and its leaks: small and large answers, uploads, streams,
// WebSockets, clients that disconnect, are slow, send batches or junk. `npm run bench -- soak 60` runs for an hour.
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { startGatewayProcess, startWorkerd } from '../test/support/edge/peers.ts';
import { effort, words } from './support/bench-scale.ts';
import { median } from './support/figures.ts';

const MINUTES = effort(30, 1);
const MINUTE_MS = effort(60_000, 2_000);
/** Maximum ratio of the last quarter to the second; the first is the warm-up. */
const FLAT = 1.1;

const APP = `
const encoder = new TextEncoder();
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const [, kind, size] = pathname.split('/');
    if (request.headers.get('upgrade') === 'websocket') {
      const [client, server] = Object.values(new WebSocketPair());
      server.accept();
      server.addEventListener('message', ({ data }) => server.send(data));
      return new Response(null, { status: 101, webSocket: client });
    }
    if (kind === 'sink') {
      let bytes = 0;
      for await (const part of request.body) bytes += part.byteLength;
      return new Response(String(bytes));
    }
    if (kind === 'refuse') return new Response('no', { status: 413 });
    if (kind === 'events') {
      const { readable, writable } = new TransformStream();
      const writer = writable.getWriter();
      (async () => {
        try {
          for (let i = 0; i < 20; i++) {
            await writer.write(encoder.encode('data: ' + i + '\\n\\n'));
            await scheduler.wait(50);
          }
          await writer.close();
        } catch {}
      })();
      return new Response(readable, { headers: { 'content-type': 'text/event-stream' } });
    }
    return new Response('x'.repeat(Number(size)));
  },
};
`;

const counts = new Map<string, number>();
const problems = new Map<string, number>();
const random = (most: number): number => Math.floor(Math.random() * most);

/** Prints the gateway's memory and connections each minute, and at the end whether they are stable. */
export async function run(): Promise<void> {
  const minutes = words[0] ?? MINUTES;
  const end = performance.now() + Number(minutes) * MINUTE_MS;
  await using cell = await startWorkerd(APP);
  await using gateway = await startGatewayProcess(cell.socketPath);
  const traffic = startTraffic(gateway.port, end);
  const resident: number[] = [];
  const used: number[] = [];
  console.log('minute   RSS MB   heap and buffers MB   open files   requests so far');
  for (let minute = 1; performance.now() < end - MINUTE_MS / 2; minute++) {
    await sleep(MINUTE_MS);
    const { rss, heapUsed, external } = await gateway.memory();
    resident.push(rss);
    used.push(heapUsed + external);
    const files = readdirSync(`/proc/${gateway.pid}/fd`).length;
    const requests = [...counts.values()].reduce((sum, count) => sum + count, 0);
    const mb = (bytes: number) => (bytes / 1024 / 1024).toFixed(1);
    console.log(
      `${String(minute).padStart(6)}${mb(rss).padStart(9)}${mb(heapUsed + external).padStart(22)}` +
        `${String(files).padStart(13)}${String(requests).padStart(18)}`,
    );
  }
  await traffic;
  const left = readdirSync(`/proc/${gateway.pid}/fd`).length;
  console.log(
    `traffic: ${list(counts)}\nanswers that were not as they should be: ${list(problems) || 'none'}`,
  );
  console.log(`open files at the end: ${left}; peak RSS ${peakMb(gateway.pid).toFixed(0)} MB`);
  const rssRatio = lastToSecondQuarter(resident, median);
  // Used memory varies with the bodies under way: its minimum shows a leak.
  const usedRatio = lastToSecondQuarter(used, (values) => Math.min(...values));
  console.log(
    `last / second quarter: RSS ${rssRatio.toFixed(2)}, in use ${usedRatio.toFixed(2)} ` +
      `(flat is at most ${FLAT}: ${Math.max(rssRatio, usedRatio) <= FLAT ? 'flat' : 'not flat'})`,
  );
}

function lastToSecondQuarter(values: number[], of: (values: number[]) => number): number {
  const quarter = Math.ceil(values.length / 4);
  return of(values.slice(-quarter)) / of(values.slice(quarter, 2 * quarter));
}

function list(numbers: Map<string, number>): string {
  return [...numbers].map(([name, count]) => `${count} ${name}`).join(', ');
}

function peakMb(pid: number): number {
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
}

/** Starts all clients. Resolves when they have ended, soon after `end`. */
async function startTraffic(port: number, end: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  const clients: [name: string, count: number, pauseMs: number, once: () => Promise<void>][] = [
    ['small answers', 6, 10, () => ask(port, agent, 'GET', '/size/1024', 0, 1_024)],
    ['large answers', 2, 50, () => ask(port, agent, 'GET', '/size/1048576', 0, 1_048_576)],
    ['new connections', 2, 20, () => ask(port, false, 'GET', '/size/100', 0, 100)],
    ['uploads', 2, 50, () => ask(port, agent, 'POST', '/sink', 1 + random(1_000_000))],
    ['early answers', 1, 100, () => ask(port, false, 'POST', '/refuse', 2_000_000).catch(() => {})],
    ['streams', 3, 10, () => ask(port, agent, 'GET', '/events', 0)],
    ['aborted answers', 2, 20, () => abort(port, 'GET /size/4000000 HTTP/1.1\r\nHost: a\r\n\r\n')],
    ['aborted streams', 2, 20, () => abort(port, 'GET /events HTTP/1.1\r\nHost: a\r\n\r\n')],
    [
      'aborted uploads',
      2,
      20,
      () => abort(port, `POST /sink HTTP/1.1\r\nHost: a\r\nContent-Length: 9999\r\n\r\nx`),
    ],
    ['slow heads', 4, 10, () => drip(port)],
    ['slow readers', 2, 10, () => readSlowly(port)],
    ['batches', 1, 50, () => batch(port)],
    ['nonsense', 1, 50, () => abort(port, 'GET / HTTP/1.1\nHost: a\r\n\r\n')],
    ['WebSockets', 3, 10, () => talk(port)],
  ];
  const loops = clients.flatMap(([name, count, pauseMs, once]) =>
    Array.from({ length: count }, async () => {
      while (performance.now() < end) {
        await once().catch((error: Error) => add(problems, `${name}: ${error.message}`));
        add(counts, name);
        await sleep(pauseMs);
      }
    }),
  );
  await Promise.all(loops);
  agent.destroy();
}

function add(numbers: Map<string, number>, name: string): void {
  numbers.set(name, (numbers.get(name) ?? 0) + 1);
}

/** Sends one request with a body of this size. Rejects unless the answer is complete and has the expected length. */
function ask(
  port: number,
  agent: Agent | false,
  method: string,
  path: string,
  bytes: number,
  expected?: number,
) {
  return new Promise<void>((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, agent, method, path }, (response) => {
      let length = 0;
      let text = '';
      response.on('data', (chunk: Buffer) => {
        length += chunk.length;
        if (path === '/sink') text += chunk.toString();
      });
      response.on('error', reject);
      response.on('end', () => {
        const right =
          path === '/sink' ? text === String(bytes) : expected === undefined || length === expected;
        if (right) resolve();
        else reject(new Error(`status ${response.statusCode} with ${length} bytes`));
      });
    });
    sent.on('error', reject);
    sent.end(Buffer.alloc(bytes, 'x'));
  });
}

function open(port: number): Socket {
  return connect(port, '127.0.0.1').on('error', () => {});
}

async function closed(socket: Socket): Promise<void> {
  if (!socket.closed) await once(socket, 'close');
}

/** Sends data and disconnects in the middle of the answer. */
async function abort(port: number, text: string): Promise<void> {
  const socket = open(port);
  socket.resume();
  socket.write(text);
  await sleep(random(100));
  socket.destroy();
  await closed(socket);
}

/** Sends a request head byte by byte, without an end. */
async function drip(port: number): Promise<void> {
  const socket = open(port);
  socket.resume();
  for (const byte of 'GET / HTTP/1.1\r\nHost: a\r\nX: slow'.slice(0, random(30))) {
    socket.write(byte);
    await sleep(100);
  }
  socket.destroy();
  await closed(socket);
}

/** Reads a large answer in small steps, and disconnects before its end. */
async function readSlowly(port: number): Promise<void> {
  const socket = open(port);
  socket.write('GET /size/8000000 HTTP/1.1\r\nHost: a\r\n\r\n');
  for (let i = 0; i < 30; i++) {
    socket.resume();
    await sleep(1);
    socket.pause();
    await sleep(100);
  }
  socket.destroy();
  await closed(socket);
}

/** Sends many pipelined requests on one connection. */
async function batch(port: number): Promise<void> {
  const socket = open(port);
  let answers = 0;
  socket.on('data', (chunk: Buffer) => {
    answers += chunk.toString('latin1').split('HTTP/1.1 200').length - 1;
  });
  const one = 'GET /size/1 HTTP/1.1\r\nHost: a\r\n';
  socket.write(`${one}\r\n`.repeat(50));
  socket.write(`${one}Connection: close\r\n\r\n`);
  await closed(socket);
  // A status line may be split over two chunks.
  if (answers < 45) throw new Error(`${answers} of 51 answers`);
}

/** Opens a WebSocket, sends a few messages, and closes it or just disconnects. */
async function talk(port: number): Promise<void> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`);
  await once(socket, 'open');
  for (let i = 0; i < 5; i++) {
    const echoed = once(socket, 'message');
    socket.send('x'.repeat(random(100_000)));
    await echoed;
  }
  const closed = once(socket, 'close');
  socket.close();
  await closed;
}
