// The process of the proxy. The host gives it the bucket's keys and the socket at which it listens.
import { flushCompileCache } from 'node:module';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { log } from '../../log.ts';
import type { Report, Setup } from './messages.ts';
import { Reports } from './reports.ts';
import { ProxyServer } from './server.ts';

const report = (report: Report) => process.send?.(report);

process.once('message', (setup: Setup, listener: unknown) => {
  if (setup.authorities.length > 0)
    setDefaultCACertificates([...getCACertificates('default'), ...setup.authorities]);
  const { server } = new ProxyServer(setup, new Reports(report));
  server.on('error', (error) => {
    log('error', 'the socket of the bucket proxy failed', { error: error.message });
    process.exit(1);
  });
  server.listen(listener as object, () => {
    report({ type: 'listening' });
    // Saves compiled code now, because the host later kills this process, and Node would save it only at an exit.
    flushCompileCache();
  });
});
// The process ends with the host.
process.on('disconnect', () => process.exit());
// An error of one request must not end the others.
process.on('uncaughtException', (error) =>
  log('error', 'the bucket proxy had an uncaught error', { error: error.stack }),
);
