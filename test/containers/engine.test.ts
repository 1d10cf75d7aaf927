// Calls to a container engine.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { Engine } from '../../runtime/containers/engine.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a container that a timed-out call left behind is replaced', async (t) => {
  const names = new Set(['cellar-1']);
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, 'http://engine');
    const name = searchParams.get('name');
    if (request.method === 'DELETE') names.delete(pathname.split('/')[2]!);
    if (name === null) return response.writeHead(204).end();
    if (names.has(name)) return response.writeHead(409).end('{"message":"the name is already in use"}');
    names.add(name);
    response.writeHead(201).end(`{"Id":"id-of-${name}"}`);
  });
  const socket = join(temporaryDirectory(t), 'engine.sock');
  server.listen(socket);
  await once(server, 'listening');
  t.after(() => server.close());
  assert.equal(await new Engine(socket).create('cellar-1', {}), 'id-of-cellar-1');
});
