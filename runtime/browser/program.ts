// The browser service: a process that serves the browser bindings of apps, and connects browsers with the internet. The host
// starts the browsers.
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
import { RemoteBrowser } from './remote-browser.ts';
import { SandboxBrowser } from './sandbox-browser.ts';
import { Sessions } from './sessions.ts';

const GIB = 1024 ** 3;
/** Maximum sessions at a time, on any machine. */
const MOST = 16;

const { sockets, egress, url } = serviceOptions<BrowserServiceOptions>();
/** Maximum sessions at a time. For browsers on this machine: one for each 2 GiB of the machine's memory, at least two. */
const all = url === '' ? Math.max(2, Math.min(MOST, Math.floor(totalmem() / 2 / GIB))) : MOST;
const addresses = new AppAddresses(egress);
// One account may have half of the browsers, so that other accounts get one too.
const sessions = new Sessions({ all, perOwner: Math.ceil(all / 2) }, (browser) => {
  if (url !== '') return new RemoteBrowser(url);
  const ask = (wanted: boolean) => process.send?.({ browser, wanted } satisfies BrowserRequest);
  return new SandboxBrowser({ socket: sessionSocket(sockets, browser), ask, addresses });
});

process.on('message', ({ browser, ended }: Partial<BrowserEnd>) => {
  if (browser !== undefined) sessions.browserEnded(browser, ended!);
});
serveApps('browser service', (app, listener, { owner }) =>
  AppServer.listen(listener, { app, owner, sessions }),
);
