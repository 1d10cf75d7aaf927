// The container service: a process that serves workerd's calls for the containers of Durable Objects, and connects them. The
// host makes the containers.
import { totalmem } from 'node:os';
import { serveApps, serviceOptions } from '../app-services/app-service-program.ts';
import { AppAddresses } from '../browser/app-addresses.ts';
import { AppServer } from './app-server.ts';
import type { PortHandle } from './container.ts';
import { Containers } from './containers.ts';
import type { ContainerEnd, ContainerReply, ContainerServiceOptions } from './messages.ts';

const { sockets, egress } = serviceOptions<ContainerServiceOptions>();
const containers = new Containers({
  memoryMb: Math.floor(totalmem() / 2 / 2 ** 20),
  sockets,
  addresses: new AppAddresses(egress),
  send: (request) => process.send?.(request),
});

process.on('message', (message: Partial<ContainerReply & ContainerEnd>, handle: unknown) => {
  if (message.call !== undefined)
    containers.answered(message as ContainerReply, handle as PortHandle | undefined);
  else if (message.container !== undefined) containers.exited(message.container, message.exitCode!);
});
serveApps('container service', (app, listener, { owner }) =>
  AppServer.listen(listener, { app, owner, containers }),
);
