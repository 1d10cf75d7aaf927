import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { Follower } from '../../../runtime/builds/deploy/follower.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

async function socketPair(t: TestContext): Promise<[Socket, Socket]> {
  const path = join(temporaryDirectory(t), 'socket');
  const server = createServer().listen(path);
  await once(server, 'listening');
  const client = connect(path);
  const [socket] = (await once(server, 'connection')) as [Socket];
  t.after(() => {
    client.destroy();
    socket.destroy();
    server.close();
  });
  return [socket, client];
}

test('a follower that reads gets every line', async (t) => {
  const [output, follower] = await socketPair(t);
  const received = text(follower);
  const writer = new Follower(output);
  for (let i = 0; i < 1000; i++) writer.write(`line ${i}`);
  writer.end('');
  assert.equal(await received, Array.from({ length: 1000 }, (_, i) => `line ${i}\n`).join(''));
});

test('a follower that stops reading costs no memory, and later gets whole lines and the number of dropped ones', async (t) => {
  const [output, follower] = await socketPair(t);
  const writer = new Follower(output);
  const line = 'x'.repeat(1500);
  for (let i = 0; i < 20_000; i++) {
    writer.write(line);
    if (i % 1000 === 0) await new Promise(setImmediate);
  }
  assert.ok(output.writableLength < 300 * 1024, `${output.writableLength} bytes wait`);
  writer.end('the end\n');
  const lines = (await text(follower)).split('\n').slice(0, -1);
  assert.equal(lines.pop(), 'the end');
  assert.ok(lines.length < 2000, `${lines.length} lines`);
  assert.deepEqual(
    lines.filter((received) => received !== line),
    ['… (some lines are not shown here: they come faster than they are read)'],
  );
});

test('lines that arrive together are written together', async () => {
  const written: string[] = [];
  const output = new Writable({
    decodeStrings: false,
    write: (text: string, _encoding, done) => {
      written.push(text);
      done();
    },
  });
  const follower = new Follower(output);
  for (let i = 0; i < 260; i++) follower.write('y');
  await new Promise(setImmediate);
  follower.write('later');
  follower.end('the end\n');
  await once(output, 'finish');
  assert.deepEqual(written, ['y\n'.repeat(260), 'later\nthe end\n']);
});
