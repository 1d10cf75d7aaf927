// Runs in the network of a host, which listens on loopback only. Accepts connections at the host's address, and relays them
// to the same port on loopback. `node relay.ts ADDRESS PORT…`; exits when its standard input ends.
import { connect, createServer } from 'node:net';

const [address, ...ports] = process.argv.slice(2);
for (const port of ports.map(Number)) {
  const server = createServer((client) => {
    const host = connect(port, '127.0.0.1');
    client.pipe(host).pipe(client);
    client.on('error', () => host.destroy()).on('close', () => host.destroySoon());
    host.on('error', () => client.destroy()).on('close', () => client.destroySoon());
  });
  server.listen(port, address);
}
process.stdin.resume().on('end', () => process.exit());
