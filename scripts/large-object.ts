// `node scripts/large-object.ts [MIB]` moves one object of R2's largest size through an app's Worker and through the
// API. Measures the memory of every process on the way. Needs disk space of three times the object's size.
import { createHash } from 'node:crypto';
import { type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Cellar } from '../test/support/e2e/cellar.ts';
import { memoryDuring } from '../test/support/e2e/memories.ts';

const MIB = 2 ** 20;
/** Size of the object, in bytes. The default is the maximum of one `put`: 5 GiB minus 5 MiB. */
const OBJECT_BYTES = Number(process.argv[2] ?? 5 * 1024 - 5) * MIB;
/** Limit of a process's memory growth during the transfer, in bytes. */
const FLAT_BYTES = 128 * MIB;
const SILENCE_MS = 60_000;

await using cellar = await new Cellar({ RUNNER_APP_MAX_MB: '0' }).start();
const id = await cellar.deploy('keeper', 'bucket');
await cellar.get('keeper');
const raw = `/v1/apps/${id}/storage/r2/files/raw`;
const byApp = { port: cellar.edgePort, headers: { host: `keeper.localhost:${cellar.edgePort}` } };
const byApi = { port: new URL(cellar.api).port, headers: { authorization: `Bearer ${cellar.token}` } };
let missed = 0;

const digest = await digestOf(pieces());
for (const { way, to, path, other } of [
  { way: 'the app', to: byApp, path: '/film.bin', other: '/film.bin' },
  { way: 'the API', to: byApi, path: `${raw}?key=again.bin`, other: `${raw}?key=film.bin` },
]) {
  const headers = { ...to.headers, 'content-length': OBJECT_BYTES };
  const put = await during(`put through ${way}`, async () => {
    const answer = await ask({ ...to, headers, path, method: 'PUT' }, Readable.from(pieces()));
    return JSON.parse(await textOf(answer)) as { size?: number; etag?: string };
  });
  report(`put through ${way}: ${put.size} bytes`, put.size === OBJECT_BYTES && put.etag === digest);
  const got = await during(`get through ${way}`, async () =>
    digestOf(await ask({ ...to, path: other, method: 'GET' })),
  );
  report(`get through ${way}: the bytes that were put`, got === digest);
}
process.exitCode = missed === 0 ? 0 : 1;

function report(what: string, isMet: boolean): void {
  if (!isMet) missed++;
  console.log(`${isMet ? 'met   ' : 'MISSED'} ${what}`);
}

/** Yields the object in chunks of 1 MiB. Each begins with its number. */
function* pieces(): Generator<Buffer> {
  const piece = Buffer.alloc(MIB, 7);
  for (let n = 0; n < OBJECT_BYTES / MIB; n++) {
    const own = Buffer.from(piece);
    own.writeUInt32BE(n);
    yield own;
  }
}

async function digestOf(bytes: Iterable<Buffer> | AsyncIterable<Buffer>): Promise<string> {
  const hash = createHash('md5');
  for await (const piece of bytes) hash.update(piece);
  return hash.digest('hex');
}

async function textOf(answer: IncomingMessage): Promise<string> {
  return Buffer.concat((await answer.toArray()) as Buffer[]).toString();
}

/** Sends a request. @throws {Error} when the status is not 2xx */
async function ask(
  options: { port: number | string; path: string; method: string; headers: Record<string, string | number> },
  body?: Readable,
): Promise<IncomingMessage> {
  const sent = request({ host: '127.0.0.1', agent: false, timeout: SILENCE_MS, ...options });
  sent.on('timeout', () => sent.destroy(new Error('nothing moves')));
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.on('response', resolve).on('error', reject);
  });
  if (body === undefined) sent.end();
  else await Promise.race([pipeline(body, sent), answered]);
  const answer = await answered;
  if (answer.statusCode! < 300) return answer;
  throw new Error(`${options.method} ${options.path} answered ${answer.statusCode}: ${await textOf(answer)}`);
}

/** Runs `work`, and prints its duration and the memory growth of each process. */
async function during<T>(what: string, work: () => Promise<T>): Promise<T> {
  const from = performance.now();
  const { result, most } = await memoryDuring(cellar, work);
  const seconds = (performance.now() - from) / 1000;
  console.log(`       ${what}: ${seconds.toFixed(1)} s, ${(OBJECT_BYTES / MIB / seconds).toFixed(0)} MiB/s`);
  for (const { name, bytes, grown } of most) {
    const result = `${what}: ${name} ${(bytes / MIB).toFixed(0)} MiB at most, ${(grown / MIB).toFixed(0)} more than before`;
    report(result, grown <= FLAT_BYTES);
  }
  return result;
}
