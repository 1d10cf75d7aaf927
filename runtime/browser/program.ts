// The browser service: a process that gives apps browsers, and connects them with the internet. The host starts the browsers.
import { totalmem } from 'node:os';
import { serveApps, serviceOptions } from '../app-services/app-service-program.ts';
import { AppAddresses } from './app-addresses.ts';
import { AppServer } from './app-server.ts';
import {
  type BrowserEnd,
  type BrowserRequest,
  type BrowserServiceOptions,
  sessionSocket,
} from './messages.ts';
import { Sessions } from './sessions.ts';

const GIB = 1024 ** 3;
/** Sessions on this machine: each may have 1 GiB of memory, and they have half the machine at most. */
const ALL = Math.max(2, Math.min(16, Math.floor(totalmem() / 2 / GIB)));
/** One account leaves others a browser. */
const LIMITS = { all: ALL, perOwner: Math.ceil(ALL / 2) };

const { sockets, egress } = serviceOptions<BrowserServiceOptions>();
const addresses = new AppAddresses(egress);
const sessions = new Sessions(LIMITS, (browser) => ({
  socket: sessionSocket(sockets, browser),
  ask: (wanted) => process.send?.({ browser, wanted } satisfies BrowserRequest),
  addresses,
}));

process.on('message', ({ browser, ended }: Partial<BrowserEnd>) => {
  if (browser !== undefined) sessions.browserEnded(browser, ended!);
});
serveApps('browser service', (app, listener, { owner }) =>
  AppServer.listen(listener, { app, owner, sessions }),
);
