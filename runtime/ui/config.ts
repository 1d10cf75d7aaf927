// The config of the control UI's process.
import type { UiFiles } from '../../handlers/contract/host/ui-files.ts';
import { d1Worker } from '../fleets/config/bundled-services.ts';
import { capnp, embed, type Fields } from '../fleets/config/capnp.ts';
import { heapFlags } from '../fleets/config/heap.ts';
import { WORKER } from './files.ts';

/** Maximum size of its JavaScript heap, in MiB. */
const HEAP_MB = 256;
const DATE = '2026-10-01';

export interface UiConfig {
  files: UiFiles;
  /** Path of the API's socket. */
  apiSocket: string;
  /** Names of the text bindings, whose values are in the process's environment. */
  variables: string[];
}

/**
 * Returns the text of the config, a file beside the Worker. Socket: `http`. Disks, set at the start: `do` (its database) and
 * `files`. The process can reach only the API.
 */
export function uiConfig({ files, apiSocket, variables }: UiConfig): string {
  const ui: Fields = {
    modules: [{ name: 'worker.js', esModule: embed(WORKER) }],
    compatibilityDate: DATE,
    bindings: [
      ...variables.map((name) => ({ name, fromEnvironment: name })),
      { name: 'FILES', json: JSON.stringify(files) },
      { name: 'DISK', service: 'files' },
      { name: 'API', service: 'api' },
      {
        name: 'DB',
        wrapped: {
          moduleName: 'cloudflare-internal:d1-api',
          innerBindings: [
            { name: 'fetcher', service: { name: 'd1-service', props: { json: '{"database":"sign-in"}' } } },
          ],
        },
      },
    ],
  };
  const config: Fields = {
    structuredLogging: true,
    v8Flags: heapFlags(HEAP_MB),
    services: [
      { name: 'do', disk: { writable: true } },
      { name: 'files', disk: {} },
      { name: 'api', external: { address: `unix:${apiSocket}`, http: {} } },
      { name: 'internet', network: { allow: [] } },
      { name: 'd1-service', worker: d1Worker() },
      { name: 'ui', worker: ui },
    ],
    sockets: [
      {
        name: 'http',
        http: { forwardedProtoHeader: 'X-Cellar-Proto', cfBlobHeader: 'X-Cellar-Cf' },
        service: 'ui',
      },
    ],
  };
  return `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${capnp(config)};\n`;
}
