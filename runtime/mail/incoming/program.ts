// The receiver of e-mails: a process of the host that reads what strangers send, and gives it to the apps.
import { once } from 'node:events';
import type { Server } from 'node:net';
import { log, reason } from '../../log.ts';
import { ownCertificate } from './certificate.ts';
import { Deliveries } from './delivery.ts';
import type { Renewal, Setup } from './messages.ts';
import { Outgoing } from './outgoing.ts';
import { Receiver } from './receiver.ts';

let receiver: Receiver | null = null;

process.on('message', (message: Setup | Renewal, listener: unknown) => {
  if (message.type === 'tls') {
    receiver?.server.updateSecureContext({ ...message.tls });
    return;
  }
  // A process that cannot listen ends: the host starts another.
  void listen(message, listener as Server).catch((error: unknown) => {
    log('error', 'the receiver of e-mails cannot start', { error: reason(error) });
    process.exit(1);
  });
});

async function listen({ name, socket, tls, outgoing }: Setup, listener: Server): Promise<void> {
  const deliveries = new Deliveries(socket, new Outgoing(outgoing));
  receiver = new Receiver({ name, socket, tls: tls ?? (await ownCertificate(name)), deliveries });
  const { server } = receiver.server;
  server.listen(listener);
  await once(server, 'listening');
  process.send?.({ type: 'listening' });
}

// The process ends with the host.
process.on('disconnect', () => process.exit());
// An error of one connection must not end the others.
process.on('uncaughtException', (error) =>
  log('error', 'the receiver of e-mails had an uncaught error', { error: error.stack }),
);
