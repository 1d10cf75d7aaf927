// Miniflare, which runs the handlers, as it is set up in its thread and kept from what it would do to the host's process.
import type { ChildProcess } from 'node:child_process';
import diagnosticsChannel from 'node:diagnostics_channel';
import type { Server } from 'node:net';
import type { MiniflareOptions } from 'miniflare';
import { log } from '../log.ts';

/** Connections that Miniflare's own server takes. Its workerd needs it for little more than the log. */
const MINIFLARE_CONNECTIONS = 32;

/** What the handlers run with. */
export interface HandlersOptions {
  /** The handlers, bundled. */
  script: string;
  /** Directory of the D1 database, the Durable Objects and the bucket. */
  directory: string;
  /** Path of the socket behind the HOST binding. */
  hostSocket: string;
  /** Proves the host to the control plane. */
  secret: string;
  /** Text bindings, by name. */
  variables: Record<string, string>;
}

/** @param onRestart called when Miniflare has started its workerd again */
export function miniflareOptions(handlers: HandlersOptions, onRestart: () => void): MiniflareOptions {
  return {
    host: '127.0.0.1',
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    // The dev registry would open a port by which every user of the machine can call every service and object.
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
        // Miniflare's own entry costs two thirds of the throughput. The address is replaced: see `writeRuntimeProgram`.
        dev: { rootPath: '/', unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] },
      },
    ],
  };
}

/**
 * Bounds the TCP server that Miniflare starts in this thread. It answers nobody without its secret, but every user of
 * the machine could fill this process with connections to it.
 */
export function boundServers(): void {
  diagnosticsChannel.subscribe('tracing:net.server.listen:asyncStart', (message) => {
    (message as { server: Server }).server.maxConnections = MINIFLARE_CONNECTIONS;
  });
}

/**
 * Has Miniflare learn that its workerd could not be made, or ended before it had read its configuration: by itself it
 * would wait for ever for that, and then start no other.
 * @param program what it runs as workerd
 */
export function tellOfEarlyEnds(program: string): void {
  diagnosticsChannel.subscribe('child_process', (message) => {
    const { process: child } = message as { process: ChildProcess };
    // What it runs is known when it has been started, in this turn of the loop.
    queueMicrotask(() => {
      if (child.spawnfile !== program) return;
      const fail = (error: Error) => {
        const { stdin } = child;
        if (stdin && !stdin.writableFinished && stdin.listenerCount('error') > 0) stdin.emit('error', error);
      };
      child.once('exit', () => fail(new Error('it ended before it had read its configuration')));
      child.once('error', (error) => {
        fail(error);
        // No other event will say that this process has ended.
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
