// Miniflare's options for the handlers. Miniflare writes the config of their workerd process; it does not run them.
import type { MiniflareOptions } from 'miniflare';

/** The inputs of the config. */
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

export function miniflareOptions(handlers: HandlersOptions): MiniflareOptions {
  return {
    host: '127.0.0.1',
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    enableDevRegistry: false,
    logRequests: false,
    // Makes workerd print its log as JSON.
    handleStructuredLogs: () => {},
    resourcePersistencePath: handlers.directory,
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
        // Direct, because Miniflare's own entry costs two thirds of the throughput.
        dev: { rootPath: '/', unsafeDirectSockets: [{ host: '127.0.0.1', port: 0 }] },
      },
    ],
  };
}

function textBindings(variables: Record<string, string>): Record<string, { type: 'text'; value: string }> {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [name, { type: 'text', value }]),
  );
}
