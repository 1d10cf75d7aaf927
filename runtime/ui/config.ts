// The config of the control UI's process.
import type { UiFiles } from '../../handlers/contract/host/ui-files.ts';
import { d1Binding } from '../fleets/config/bundled-services.ts';
import { configText, embed, type Fields } from '../fleets/config/capnp.ts';
import { heapFlags } from '../fleets/config/heap.ts';
import { WORKER } from './files.ts';

/** Maximum size of the process's JavaScript heap, in MiB. */
const HEAP_MB = 256;
const DATE = '2026-10-01';

/** An OpenID provider may be in a private network, or on this machine. Only the settings choose its address. */
const CONNECTED = { allow: ['public', 'private', 'local'], tlsOptions: { trustBrowserCas: true } };

export interface UiConfig {
  files: UiFiles;
  /** Path of the API's socket. */
  apiSocket: string;
  /** Path of the socket of the UI's database, a service of the control plane's process. */
  databaseSocket: string;
  /** Whether the process may connect to other machines. Needed only for sign-in by an OpenID provider. */
  isConnected: boolean;
  /** Names of the text bindings, whose values are in the process's environment. */
  variables: string[];
}

/**
 * Returns the text of workerd's config, for a file beside `worker.js`. It declares the socket `http`, and the disk `files`,
 * whose path is set at the start. The process can connect only to the API and its database, unless `isConnected`.
 */
export function uiConfig({ files, apiSocket, databaseSocket, isConnected, variables }: UiConfig): string {
  const ui: Fields = {
    modules: [{ name: 'worker.js', esModule: embed(WORKER) }],
    compatibilityDate: DATE,
    bindings: [
      ...variables.map((name) => ({ name, fromEnvironment: name })),
      { name: 'FILES', json: JSON.stringify(files) },
      { name: 'DISK', service: 'files' },
      { name: 'API', service: 'api' },
      d1Binding('DB', 'database'),
    ],
  };
  const config: Fields = {
    structuredLogging: true,
    v8Flags: heapFlags(HEAP_MB),
    services: [
      { name: 'files', disk: {} },
      { name: 'api', external: { address: `unix:${apiSocket}`, http: {} } },
      { name: 'internet', network: isConnected ? CONNECTED : { allow: [] } },
      { name: 'database', external: { address: `unix:${databaseSocket}`, http: {} } },
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
  return configText(config);
}
