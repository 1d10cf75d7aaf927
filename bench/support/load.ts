// Load generator for an HTTP port, and CPU time of a process.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempDisposableSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { until } from '../../runtime/threads/until.ts';
import { isQuick } from './bench-scale.ts';

export interface Load {
  requests: number;
  requestsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
}

/** The request: a GET, or a POST when there is a body. */
export interface Asked {
  path: string;
  headers?: Record<string, string>;
  body?: string;
}

const CONNECTIONS = 32;
/** Timeout of a fixed number of requests, in s. */
const ASK_SECONDS = 60;
/** Printed by wrk's script when all requests were answered. */
const COUNTED = 'counted';
/** Minimum duration of the load in a quick run, in ms. */
const QUICK_MS = 100;
/** Clock tick of /proc/<pid>/stat, in ms: 100 a second on every Linux that Node runs on. */
const TICK_MS = 10;
const hasWrk = spawnSync('wrk', ['--version']).error === undefined;

/** Name of the load generator, for the report. */
export const loadName = hasWrk
  ? `wrk -t1 -c${CONNECTIONS}`
  : `an own load generator with ${CONNECTIONS} connections (wrk is not installed)`;

/** Sends requests over 32 connections for `seconds`. @throws {Error} when an answer is no 200 */
export async function load(port: number, seconds: number, asked: Asked = { path: '/' }): Promise<Load> {
  if (!hasWrk) return ownLoad(port, seconds, asked);
  const output = await wrk(port, seconds, CONNECTIONS, asked);
  if (/Non-2xx|Socket errors/.test(output)) throw new Error(`not every answer was a 200:\n${output}`);
  return readLoad(output);
}

/**
 * Sends exactly this number of requests over 32 connections.
 * @throws {Error} when an answer is no 200, or, with wrk, after a minute
 */
export async function ask(port: number, requests: number, asked: Asked = { path: '/' }): Promise<void> {
  if (!hasWrk) return void (await times(port, requests, asked));
  // wrk runs for its whole duration, even when its thread has stopped. So it is interrupted once all answers are
  // counted.
  const script = `local left = ${requests}
function response(status)
  if status ~= 200 then io.stderr:write("an answer was a " .. status) end
  left = left - 1
  if left == 0 then
    wrk.thread:stop()
    io.stderr:write("${COUNTED}")
  end
end
`;
  using scratch = mkdtempDisposableSync(join(tmpdir(), 'load-'));
  const options = wrkOptions(scratch.path, ASK_SECONDS, CONNECTIONS, asked, script);
  const child = spawn('wrk', [...options, `http://127.0.0.1:${port}${asked.path}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  child.stderr.once('data', () => child.kill());
  const errors = await text(child.stderr);
  if (errors !== COUNTED) throw new Error(`not every answer was a 200: ${errors || 'none within a minute'}`);
}

/** Requests `/` over this number of connections, and counts the errors. @throws {Error} without wrk */
export async function crowd(
  port: number,
  seconds: number,
  connections: number,
): Promise<Load & { errors: number }> {
  if (!hasWrk) throw new Error('many connections at once need wrk: `apt-get install wrk`');
  const output = await wrk(port, seconds, connections, { path: '/' });
  const counts = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(output) ?? [];
  const refused = Number(/Non-2xx or 3xx responses: (\d+)/.exec(output)?.[1] ?? 0);
  const errors = counts.slice(1).reduce((sum, count) => sum + Number(count), refused);
  return { ...readLoad(output), errors };
}

/** Returns the CPU time that a process has used with all its threads, in ms. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The name may contain blanks: fields are counted from the parenthesis after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** Returns the CPU time of a process's current threads, in µs. Exact while the process is idle. */
export function cpuUs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`);
  const ns = threads.map((id) =>
    Number(readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8').split(' ')[0]),
  );
  return ns.reduce((sum, each) => sum + each, 0) / 1000;
}

/** Runs wrk. @returns its output */
async function wrk(port: number, seconds: number, connections: number, asked: Asked): Promise<string> {
  using scratch = mkdtempDisposableSync(join(tmpdir(), 'load-'));
  const options = wrkOptions(scratch.path, seconds, connections, asked);
  const child = spawn('wrk', [...options, `http://127.0.0.1:${port}${asked.path}`], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const printed = text(child.stdout);
  if (isQuick) {
    await until(() => child.exitCode !== null || takesInterrupt(child.pid!), {
      everyMs: QUICK_MS,
      timeoutMs: seconds * 1000,
    });
    child.kill('SIGINT');
  }
  return await printed;
}

/** Whether wrk has installed its SIGINT handler: from then on SIGINT ends its run, which takes at least a second. */
function takesInterrupt(pid: number): boolean {
  const caught = /^SigCgt:\s*(\S+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0';
  return (BigInt(`0x${caught}`) & 2n) !== 0n;
}

/** @param script Lua that wrk also runs */
function wrkOptions(
  scratch: string,
  seconds: number,
  connections: number,
  { headers = {}, body }: Asked,
  script = '',
): string[] {
  const options = ['-t1', `-c${connections}`, `-d${seconds}s`, '--latency', '--timeout', '10s'];
  for (const [name, value] of Object.entries(headers)) options.push('-H', `${name}: ${value}`);
  const lua = body === undefined ? script : `wrk.method = "POST"\nwrk.body = [==[${body}]==]\n${script}`;
  if (lua === '') return options;
  const file = join(scratch, 'wrk.lua');
  writeFileSync(file, lua);
  return [...options, '-s', file];
}

function readLoad(output: string): Load {
  return {
    requests: Number(/(\d+) requests in/.exec(output)![1]),
    requestsPerSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(output)![1]),
    p50Ms: milliseconds(/^\s+50%\s+(\S+)/m.exec(output)![1]!),
    p99Ms: milliseconds(/^\s+99%\s+(\S+)/m.exec(output)![1]!),
  };
}

function milliseconds(text: string): number {
  const value = Number.parseFloat(text);
  if (text.endsWith('us')) return value / 1000;
  return text.endsWith('ms') ? value : value * 1000;
}

async function ownLoad(port: number, seconds: number, asked: Asked): Promise<Load> {
  const end = performance.now() + seconds * 1000;
  const times = await overConnections(port, asked, () => performance.now() < end);
  times.sort((a, b) => a - b);
  return {
    requests: times.length,
    requestsPerSecond: times.length / seconds,
    p50Ms: times[Math.floor(times.length * 0.5)]!,
    p99Ms: times[Math.floor(times.length * 0.99)]!,
  };
}

/**
 * Sends exactly this number of requests over 32 connections. @returns latencies, in ms
 * @throws {Error} when an answer is no 200
 */
export function times(port: number, requests: number, asked: Asked): Promise<number[]> {
  let left = requests;
  return overConnections(port, asked, () => left-- > 0);
}

/** Returns the latencies, in ms. @param goesOn whether to send one more request */
async function overConnections(port: number, asked: Asked, goesOn: () => boolean): Promise<number[]> {
  const message = messageOf(asked);
  const times: number[] = [];
  await Promise.all(Array.from({ length: CONNECTIONS }, () => oneConnection(port, message, goesOn, times)));
  return times;
}

function messageOf({ path, headers = {}, body }: Asked): string {
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  const fields = Object.entries({ Host: '127.0.0.1', ...headers, ...length });
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  return `${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1\r\n${lines}\r\n${body ?? ''}`;
}

/** Sends one request after another while `goesOn` allows. Answers must have a length. */
function oneConnection(port: number, message: string, goesOn: () => boolean, times: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let sentAt = 0;
    let received = '';
    const next = (): void => {
      received = '';
      sentAt = performance.now();
      if (goesOn()) socket.write(message);
      else socket.end();
    };
    socket.on('connect', next);
    socket.on('error', reject);
    socket.on('close', () => resolve());
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      const head = received.indexOf('\r\n\r\n');
      const length = /\r\ncontent-length: (\d+)/i.exec(received)?.[1];
      if (head === -1 || received.length < head + 4 + Number(length)) return;
      if (!received.startsWith('HTTP/1.1 200 '))
        socket.destroy(new Error(`no 200: ${received.slice(0, 80)}`));
      times.push(performance.now() - sentAt);
      next();
    });
  });
}
