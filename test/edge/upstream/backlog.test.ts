// Received but unread bytes: buffered and searched in linear time, however small their segments are.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Backlog } from '../../../runtime/edge/http/body/backlog.ts';
import { cpuTime } from '../../support/cpu-time.ts';
import { call, RawClient, startGateway, startRawUpstream } from '../../support/edge/peers.ts';
import { randomCases } from '../../support/random.ts';

/** Returns the CPU time for a head of `bytes` bytes that arrives byte by byte, in ms; the minimum of several runs. */
function cost(bytes: number): number {
  const runs = Array.from({ length: 5 }, () => {
    const backlog = new Backlog();
    const spent = cpuTime();
    for (let i = 0; i < bytes; i++) {
      backlog.add(Buffer.from('a'));
      backlog.headLength();
      backlog.mayBeHead(bytes);
      backlog.keep();
    }
    return spent();
  });
  return Math.min(...runs);
}

test('a head that arrives byte by byte costs time proportional to its length', () => {
  cost(8_000);
  const ratio = cost(256_000) / cost(8_000);
  assert.ok(ratio < 100, `32 times the length costs ${ratio.toFixed(0)} times as much`);
});

test('a backlog holds exactly the unread bytes and finds the end of a head, however they are split', () => {
  const piece = fc.oneof(
    fc.constantFrom('\r', '\n', '\r\n', '\r\n\r\n', 'a: b\r\n', '\x00', '\x7f', '\xe9', '\t'),
    fc.string({ maxLength: 3_000 }),
  );
  const step = fc.oneof(
    { weight: 4, arbitrary: fc.record({ add: piece }) },
    { weight: 1, arbitrary: fc.record({ drop: fc.nat(100) }) },
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const backlog = new Backlog();
      let expected = '';
      for (const one of steps) {
        if ('add' in one) {
          backlog.add(Buffer.from(one.add, 'latin1'));
          expected += Buffer.from(one.add, 'latin1').toString('latin1');
        } else {
          const count = Math.min(one.drop, expected.length);
          backlog.drop(count);
          expected = expected.slice(count);
        }
        backlog.keep();
        assert.equal(backlog.bytes.toString('latin1'), expected);
        const end = expected.indexOf('\r\n\r\n');
        assert.equal(backlog.headLength(), end === -1 ? -1 : end + 4);
        const known = !/[^\t\r\n\x20-\x7e\x80-\xff]|\r[^\n]|(?<!\r)\n/.test(expected.slice(0, 100));
        assert.equal(backlog.mayBeHead(100), known);
      }
    }),
    randomCases(),
  );
});

test('heads of requests and of answers arrive byte by byte', async () => {
  const long = 'x'.repeat(2_000);
  await using upstream = await startRawUpstream(async (head, socket) => {
    const answer = `HTTP/1.1 200 OK\r\nx-long: ${long}\r\ncontent-length: 2\r\n\r\nok`;
    if (head.startsWith('GET /whole')) socket.write(answer);
    else {
      for (const byte of answer) await new Promise((resolve) => socket.write(byte, resolve));
    }
  });
  await using front = await startGateway(upstream.socketPath);
  const reply = await call(front.port, '/slow');
  assert.equal(reply.headers['x-long'], long);
  using client = new RawClient(front.port);
  const request = `GET /whole HTTP/1.1\r\nHost: a\r\nx-long: ${long}\r\nConnection: close\r\n\r\n`;
  client.socket.setNoDelay();
  for (const byte of request) await new Promise((resolve) => client.socket.write(byte, resolve));
  assert.match(await client.end(), /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\nok$/);
  assert.match(upstream.requests.at(-1)!, new RegExp(`x-long: ${long}`));
});
