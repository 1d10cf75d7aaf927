// Miniflare, which runs the handlers: how it is set up, and kept from what it would do to the host's process.
import diagnosticsChannel from 'node:diagnostics_channel';
import { mkdirSync, rmSync } from 'node:fs';
import type { Server } from 'node:net';
import { join } from 'node:path';
import type { Miniflare, MiniflareOptions } from 'miniflare';
import { log } from '../log.ts';

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
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
  /** Called when Miniflare has started its workerd again. */
  onRestart: () => void;
}

export function miniflareOptions(handlers: HandlersOptions): MiniflareOptions {
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
    unsafeHandleRuntimeRestart: handlers.onRestart,
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
 * Makes a Miniflare that leaves signals to the host, keeps its temporary files in `directory`, and takes few connections.
 * @param module the package, which is loaded late because that takes a quarter of a second
 * @returns `listens` is to be called when it listens, or has failed to
 */
export function makeMiniflare(
  module: typeof import('miniflare'),
  options: MiniflareOptions,
  directory: string,
): { miniflare: Miniflare; listens: () => void } {
  const before = SIGNALS.map((signal) => process.listeners(signal));
  const restore = useTemporaryDirectory(join(directory, 'tmp'));
  const listens = boundServers();
  const miniflare = new module.Miniflare(options);
  restore();
  // Miniflare would end the process on a signal; the host drains first.
  SIGNALS.forEach((signal, i) => {
    for (const listener of process.listeners(signal))
      if (!before[i]!.includes(listener)) process.off(signal, listener);
  });
  return { miniflare, listens };
}

/**
 * Has Miniflare keep its temporary files where the next start removes what a killed host left.
 * @returns restores the setting of this process
 */
function useTemporaryDirectory(directory: string): () => void {
  const before = process.env.TMPDIR;
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { mode: 0o700 });
  process.env.TMPDIR = directory;
  return () => {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  };
}

/**
 * Bounds the TCP server that Miniflare starts in this process. It answers nobody without its secret, but every user of
 * the machine could fill this process with connections to it.
 * @returns is to be called when the server listens
 */
function boundServers(): () => void {
  const channel = 'tracing:net.server.listen:asyncStart';
  const bound = (message: unknown) => {
    (message as { server: Server }).server.maxConnections = MINIFLARE_CONNECTIONS;
  };
  diagnosticsChannel.subscribe(channel, bound);
  return () => diagnosticsChannel.unsubscribe(channel, bound);
}

function textBindings(variables: Record<string, string>): Record<string, { type: 'text'; value: string }> {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, { type: 'text', value }]),
  );
}
