// The receiver of e-mails: a process of the host that reads what strangers send, and gives it to the apps.
import type { Server } from 'node:net';
import { log } from '../../log.ts';
import { ownCertificate } from './certificate.ts';
import { Deliveries } from './delivery.ts';
import type { Renewal, Setup } from './messages.ts';
import { Outgoing } from './outgoing.ts';
import { Receiver } from './receiver.ts';

let receiver: Receiver | null = null;

process.on('message', async (message: Setup | Renewal, listener: unknown) => {
  if (message.type === 'tls') {
    receiver?.server.updateSecureContext({ ...message.tls });
    return;
  }
  const { name, socket, tls, outgoing } = message;
  const deliveries = new Deliveries(socket, new Outgoing(outgoing));
  receiver = new Receiver({ name, socket, tls: tls ?? (await ownCertificate(name)), deliveries });
  receiver.server.server.listen(listener as Server, () => process.send?.({ type: 'listening' }));
});
// The process ends with the host.
process.on('disconnect', () => process.exit());
// An error of one connection must not end the others.
process.on('uncaughtException', (error) =>
  log('error', 'the receiver of e-mails erred', { error: error.stack }),
);
