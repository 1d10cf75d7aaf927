import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  createReadStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { accessLines } from '../../../runtime/edge/log/access-line.ts';
import { AccessLog, type LineFormat } from '../../../runtime/edge/log/access-log.ts';
import type { RequestRecord } from '../../../runtime/edge/log/record.ts';
import { HEAD_BYTES } from '../../../runtime/edge/refusals.ts';
import {
  call,
  RawClient,
  startGateway,
  startRawUpstream,
  temporary,
  until,
} from '../../support/edge/peers.ts';
import { record } from '../../support/telemetry/records.ts';

/** A line format for strings of at most `lineBytes` bytes. */
const linesOf = (lineBytes: number): LineFormat<string> => ({
  lineBytes,
  put: (line, bytes, at) => at + bytes.write(line, at),
});
const LINES = linesOf(100);
const LIMITS = { fileBytes: 1_000_000, files: 5, waiting: 1_000_000 };

interface Line {
  request: { proto: string; uri: string; host: string; headers: Record<string, string[]> };
  bytes_read: number;
  duration: number;
  size: number;
  status: number;
  trace_id: string;
}

function lineOf(record: RequestRecord): string {
  const bytes = Buffer.alloc(accessLines(null).lineBytes);
  return bytes.toString('utf8', 0, accessLines(null).put(record, bytes, 0));
}

/** Starts a gateway before a raw upstream, and collects the access-log lines of its requests. */
async function logged(answer: string) {
  const lines: Line[] = [];
  const upstream = await startRawUpstream((_head, socket) => socket.write(answer));
  const gateway = await startGateway(upstream.socketPath, {});
  gateway.gateway.onEnd((record) => {
    const text = lineOf({ ...record, endedAt: 1_764_000_000_123 });
    assert.match(text, /^\P{Cc}*\n$/u, 'nothing that a terminal obeys');
    lines.push(JSON.parse(text) as Line);
  });
  return {
    port: gateway.port,
    requests: upstream.requests,
    lines,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}

test('a line has the fields of Caddy, without addresses, queries and headers that could identify a person', async () => {
  await using gateway = await logged(
    'HTTP/1.1 201 Made\r\nContent-Type: text/plain\r\ncontent-length: 4\r\n\r\nmade',
  );
  const { headers } = await call(gateway.port, '/path/"quoted"?token=secret', {
    method: 'POST',
    headers: {
      host: 'Shop.example:80',
      'user-agent': 'a "quoted" agent \x9b31m',
      referer: 'https://from.example/page?secret=1#there',
      cookie: 'secret',
      authorization: 'secret',
    },
    body: 'twelve bytes',
  });
  const [line] = gateway.lines;
  assert.ok(line!.duration > 0 && line!.duration < 10);
  assert.match(line!.trace_id, /^[0-9a-f]{32}$/);
  assert.deepEqual(line, {
    level: 'info',
    ts: 1_764_000_000.123,
    logger: 'http.log.access',
    msg: 'handled request',
    request: {
      remote_ip: '127.0.0.0',
      client_ip: '127.0.0.0',
      proto: 'HTTP/1.1',
      method: 'POST',
      host: 'shop.example',
      uri: '/path/%22quoted%22',
      headers: { 'User-Agent': ['a "quoted" agent \xc2\x9b31m'], Referer: ['https://from.example/page'] },
    },
    bytes_read: 12,
    user_id: '',
    duration: line!.duration,
    size: 4,
    status: 201,
    resp_headers: { 'Content-Type': ['text/plain'] },
    site: '',
    request_id: headers['x-request-id'],
    trace_id: line!.trace_id,
  });
});

test('each line has its own client, also when one connection repeats it and then changes it', async () => {
  await using gateway = await logged('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
  using client = new RawClient(gateway.port);
  const agents = ['one', 'one', 'other', 'one'];
  for (const [i, agent] of agents.entries()) {
    client.send(`GET /${i} HTTP/1.1\r\nHost: host-of-${agent}\r\nUser-Agent: ${agent}\r\n\r\n`);
    await until(() => gateway.lines.length === i + 1, 'its line');
  }
  assert.deepEqual(
    gateway.lines.map(({ request }) => [request.uri, request.host, request.headers['User-Agent']]),
    agents.map((agent, i) => [`/${i}`, `host-of-${agent}`, [agent]]),
  );
});

test('a client that disconnects gets a line: with 499 before an answer, with its status after', async () => {
  for (const [answer, status, size] of [
    ['', 499, 0],
    ['HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf', 200, 4],
  ] as const) {
    await using gateway = await logged(answer);
    using client = new RawClient(gateway.port);
    client.send('GET /gone HTTP/1.0\r\nHost: a\r\n\r\n');
    await until(() => gateway.requests.length === 1, 'the request');
    if (answer !== '') await client.expect('half');
    client.socket.destroy();
    await until(() => gateway.lines.length === 1, 'a line');
    const [line] = gateway.lines;
    assert.deepEqual([line!.status, line!.size, line!.request.proto], [status, size, 'HTTP/1.0']);
  }
});

test('an upgraded connection gets one line at its end, with the bytes of both directions', async () => {
  await using gateway = await logged(
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nhello',
  );
  using client = new RawClient(gateway.port);
  client.send('GET /up HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly');
  await client.expect('hello');
  assert.equal(gateway.lines.length, 0);
  client.send('bye');
  client.socket.destroySoon();
  await until(() => gateway.lines.length === 1, 'a line');
  const [line] = gateway.lines;
  assert.equal(line!.status, 101);
  assert.equal(line!.bytes_read, 8);
  assert.ok(line!.size >= 5);
});

test('a line has any number and text unchanged, and long text cut', () => {
  const texts = ['', 'plain', '"', '\\', '\t', '\x7f', '\x80\x9b\xff', 'x'.repeat(1_024), 'é'.repeat(1_024)];
  const numbers = [0, 9, 10, 99, 1_024, 2 ** 31, 2 ** 32 + 1, 10 ** 12];
  for (const [i, text] of texts.entries())
    for (const number of numbers) {
      const given = record({
        endedAt: 1_764_000_000_000 + i * 111,
        path: text,
        contentType: text,
        userAgent: text,
        referrer: text,
        bytesIn: number,
        bytesOut: number,
        durationMs: number / 1_000,
        requestId: i % 2 === 0 ? 'a-request' : '0af7651916cd43dd8448eb211c80319c',
        traceId: '0af7651916cd43dd8448eb211c80319c',
      });
      const line = JSON.parse(lineOf(given));
      assert.equal(line.ts, given.endedAt / 1_000);
      assert.equal(line.request.uri, text);
      assert.deepEqual(line.request.headers, { 'User-Agent': [text], Referer: [text] });
      assert.deepEqual(line.resp_headers, { 'Content-Type': [text] });
      assert.deepEqual([line.bytes_read, line.size], [number, number]);
      assert.equal(line.duration, number / 1_000_000);
      assert.deepEqual([line.request_id, line.trace_id], [given.requestId, given.traceId]);
    }
  const long = { path: 'x'.repeat(2_000), contentType: undefined };
  const line = JSON.parse(lineOf(record(long)));
  assert.equal(line.request.uri, 'x'.repeat(1_024));
  assert.deepEqual(line.resp_headers, {});
});

test('the longest possible line of a request fits', () => {
  // Each field has its maximum length. A control character takes six bytes in JSON.
  const text = '\x80'.repeat(1_024);
  const given = record({
    host: 'h'.repeat(HEAD_BYTES),
    path: text,
    contentType: text,
    userAgent: text,
    referrer: text,
    requestId: 'i'.repeat(128),
    site: 's'.repeat(64),
    bytesIn: Number.MAX_SAFE_INTEGER,
    bytesOut: Number.MAX_SAFE_INTEGER,
  });
  assert.equal(JSON.parse(lineOf(given)).request.host.length, HEAD_BYTES);
});

test('the cache of content types is bounded, and each line has its own type', () => {
  for (let round = 0; round < 2; round++)
    for (let i = 0; i < 200; i++) {
      const contentType = `text/x-${i}`;
      assert.deepEqual(JSON.parse(lineOf(record({ contentType }))).resp_headers, {
        'Content-Type': [contentType],
      });
    }
});

test('lines are written soon, and the rest at the end', async () => {
  using directory = temporary();
  const path = join(directory.path, 'log/access.ndjson');
  const log = new AccessLog(path, LINES, LIMITS);
  log.write('one\n');
  log.write('two\n');
  await until(() => existsSync(path) && readFileSync(path, 'utf8') === 'one\ntwo\n', 'two lines in the file');
  log.write('three\n');
  await log.close();
  assert.equal(readFileSync(path, 'utf8'), 'one\ntwo\nthree\n');
  const later = new AccessLog(path, LINES, LIMITS);
  later.write('four\n');
  await later.close();
  assert.equal(readFileSync(path, 'utf8'), 'one\ntwo\nthree\nfour\n');
});

test('lines stay intact while they are written, though the memory of earlier lines is reused', async () => {
  using directory = temporary();
  const path = join(directory.path, 'access.ndjson');
  const log = new AccessLog(path, linesOf(1_000), { ...LIMITS, fileBytes: 1e9, waiting: 8e6 });
  const batch = (name: string) =>
    Array.from({ length: 2_000 }, (_, i) => `${name} ${i} ${'x'.repeat(500)}\n`);
  const write = (lines: string[]) => {
    for (const line of lines) log.write(line);
  };
  // A pipe that nobody reads accepts little, so a write to it stays pending.
  spawnSync('mkfifo', [path]);
  for (const names of [
    ['one', 'two'],
    ['three', 'four'],
  ] as const) {
    const reader = createReadStream(path);
    write(batch(names[0]));
    await once(reader, 'readable');
    write(batch(names[1]));
    const closed = log.close();
    assert.equal(await text(reader), names.flatMap(batch).join(''));
    await closed;
  }
});

test('a full file is rotated, and the oldest is removed', async () => {
  using directory = temporary();
  const path = join(directory.path, 'access.ndjson');
  for (let i = 0; i < 8; i++) {
    const log = new AccessLog(path, LINES, { ...LIMITS, fileBytes: 10, files: 3 });
    log.write(`file number ${i}\n`);
    await log.close();
  }
  const log = new AccessLog(path, LINES, { ...LIMITS, fileBytes: 10, files: 3 });
  log.write('the last\n');
  await log.close();
  assert.deepEqual(readdirSync(directory.path).sort(), [
    'access.ndjson',
    'access.ndjson.1',
    'access.ndjson.2',
  ]);
  assert.equal(readFileSync(path, 'utf8'), 'the last\n');
  assert.equal(readFileSync(`${path}.1`, 'utf8'), 'file number 7\n');
  assert.equal(readFileSync(`${path}.2`, 'utf8'), 'file number 6\n');
});

test('a failed disk loses lines and nothing else, until it works again', async () => {
  using directory = temporary();
  writeFileSync(join(directory.path, 'log'), 'a file where the directory should be');
  const path = join(directory.path, 'log/access.ndjson');
  const broken = new AccessLog(path, LINES, LIMITS);
  broken.write('lost\n');
  await broken.close();
  rmSync(join(directory.path, 'log'));
  mkdirSync(join(directory.path, 'log'));
  broken.write('kept\n');
  await broken.close();
  assert.equal(readFileSync(path, 'utf8'), 'kept\n');
});

test('the buffer for a slow disk is bounded', async () => {
  using directory = temporary();
  const path = join(directory.path, 'access.ndjson');
  const log = new AccessLog(path, linesOf(11), { ...LIMITS, waiting: 100 });
  for (let i = 0; i < 50; i++) log.write('0123456789\n');
  await log.close();
  assert.equal(readFileSync(path, 'utf8'), '0123456789\n'.repeat(9));
});
