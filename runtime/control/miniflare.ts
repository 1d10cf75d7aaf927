// The configuration of Miniflare, which runs the handlers, and limits on what it does to the host's process.
import type { ChildProcess } from 'node:child_process';
import diagnosticsChannel from 'node:diagnostics_channel';
import type { Server } from 'node:net';
import type { MiniflareOptions } from 'miniflare';
import { log } from '../log.ts';

/** Most connections to Miniflare's own server. Its workerd uses it for little more than the log. */
const MINIFLARE_CONNECTIONS = 32;

/** The inputs of the configuration. */
export interface HandlersOptions {
  /** The bundled handlers. */
  script: string;
  /** Directory of the D1 database, the Durable Objects and the bucket. */
  directory: string;
  /** Path of the HOST binding's socket. */
  hostSocket: string;
  /** Authenticates the host to the control plane. */
  secret: string;
  /** Text bindings, by name. */
  variables: Record<string, string>;
}

/** Returns Miniflare's options. @param onRestart called when Miniflare has restarted its workerd */
export function miniflareOptions(handlers: HandlersOptions, onRestart: () => void): MiniflareOptions {
  return {
    host: '127.0.0.1',
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    // The dev registry would open a port on which every user of the machine can call every service and object.
    enableDevRegistry: false,
    logRequests: false,
    handleStructuredLogs: ({ level, message }) =>
      log(level === 'error' ? 'error' : 'info', `control: ${message}`),
    resourcePersistencePath: handlers.directory,
    unsafeHandleRuntimeRestart: onRestart,
    workers: [
      {
        config: {
          name: 'control',
          compatibilityDate: '2026-10-01',
          manifest: {
            mainModule: 'index.js',
            modulesRoot: '/',
            modules: { 'index.js': { type: 'esm', contents: handlers.script } },
          },
          env: {
            DB: { type: 'd1', id: 'control' },
            BUCKET: { type: 'r2', name: 'control' },
            APP: { type: 'durable-object', worker: 'control', exportName: 'AppObject' },
            HOST: { type: 'external', address: `unix:${handlers.hostSocket}`, http: {} },
            HOST_SECRET: { type: 'text', value: handlers.secret },
            ...textBindings(handlers.variables),
          },
          exports: { AppObject: { type: 'durable-object', storage: 'sqlite' } },
        },
        // Direct, because Miniflare's own entry costs two thirds of the throughput. `writeRuntimeProgram` replaces the address.
        dev: { rootPath: '/', unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] },
      },
    ],
  };
}

/**
 * Limits the connections of the TCP server that Miniflare starts in this thread. It answers only with its secret, but every
 * user of the machine could exhaust this process with connections.
 */
export function boundServers(): void {
  diagnosticsChannel.subscribe('tracing:net.server.listen:asyncStart', (message) => {
    (message as { server: Server }).server.maxConnections = MINIFLARE_CONNECTIONS;
  });
}

/**
 * Makes Miniflare fail when its workerd could not be spawned, or exited before it had read its configuration. Otherwise
 * Miniflare would wait forever and start no other.
 * @param program the path of its workerd
 */
export function reportEarlyExits(program: string): void {
  diagnosticsChannel.subscribe('child_process', (message) => {
    const { process: child } = message as { process: ChildProcess };
    // `spawnfile` is set when the process has been spawned, later in this turn of the event loop.
    queueMicrotask(() => {
      if (child.spawnfile !== program) return;
      const fail = (error: Error) => {
        const { stdin } = child;
        if (stdin && !stdin.writableFinished && stdin.listenerCount('error') > 0) stdin.emit('error', error);
      };
      child.once('exit', () => fail(new Error('it ended before it had read its configuration')));
      child.once('error', (error) => {
        fail(error);
        // Otherwise no event reports that this process has ended.
        child.emit('exit', null, null);
      });
    });
  });
}

function textBindings(variables: Record<string, string>): Record<string, { type: 'text'; value: string }> {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, { type: 'text', value }]),
  );
}
