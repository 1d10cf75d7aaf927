// The relay of TCP connections: a process of the host that listens at the ports for apps, and passes connections on to apps.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { log, reason } from '../log.ts';
import type { Setup } from './messages.ts';
import { Relay } from './relay.ts';

/** Idle time before the first TCP keep-alive probe, in ms. Without probes, vanished clients would hold connections open. */
const PROBE_AFTER_MS = 60_000;

process.on('message', (message: Setup) => void listen(message));

/** Listens at each port. Logs and skips a port that it cannot bind, such as one that another program uses. */
async function listen({ ports: { first, last }, isLocal, socket }: Setup): Promise<void> {
  const relay = new Relay(socket);
  for (let port = first; port <= last; port++) {
    const server = createServer(
      {
        allowHalfOpen: true,
        pauseOnConnect: true,
        noDelay: true,
        keepAlive: true,
        keepAliveInitialDelay: PROBE_AFTER_MS,
      },
      (client) => relay.take(client, port),
    );
    server.listen({ port, ...(isLocal && { host: '127.0.0.1' }) });
    try {
      await once(server, 'listening');
    } catch (error) {
      log('error', 'a port of RUNNER_TCP_PORTS cannot be opened', { port, error: reason(error) });
    }
  }
  process.send?.({ type: 'listening' });
}

// The process ends with the host.
process.on('disconnect', () => process.exit());
// An error of one connection must not end the others.
process.on('uncaughtException', (error) =>
  log('error', 'the relay of TCP connections had an uncaught error', { error: error.stack }),
);
