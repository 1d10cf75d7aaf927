// The least that a proxy in Node can do: it hands on what comes, without a look at it, and writes no log. What the gateway
// costs beyond this is its own. Its configuration is a file with the port and the path of the socket.
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { readAccepted, reading } from '../runtime/edge/http/reading.ts';
import { createHandleServer } from '../runtime/machine/socket-handle.ts';

const [port, path] = readFileSync(process.argv[2]!, 'utf8').split(' ') as [string, string];
const handOn = (to: () => Socket) =>
  reading((bytes) => {
    to().write(bytes.toString('latin1'), 'latin1');
    return true;
  });
const server = createHandleServer((accepted) => {
  const upstream = connect({ path, onread: handOn(() => client) });
  const client = readAccepted(
    accepted,
    handOn(() => upstream),
  );
  client.setNoDelay();
  const end = () => {
    client.destroy();
    upstream.destroy();
  };
  for (const socket of [client, upstream]) socket.on('error', end).on('close', end);
});
server.listen(Number(port), '127.0.0.1');
