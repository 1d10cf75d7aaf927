// The repository on a Git host from which an app is deployed.
import { api, Failure, type Params, type Result } from '../../api.ts';
import { resource } from '../../live.ts';

export type Connection = Result<'source.get'>;
export type ConnectionChange = Omit<Params<'source.connect'>, 'id'>;

/** Polling interval of the connection, with its deliveries and fetches, in ms. */
const LOOK_MS = 5_000;

export function connectionModel(id: string) {
  const connection = resource((signal) => read(id, signal), { everyMs: LOOK_MS });
  return {
    connection,
    /** Connects the app, or changes its connection. @returns the secret of the webhook */
    async connect(change: ConnectionChange): Promise<string> {
      const { secret } = await api('source.connect', { id, ...change });
      await connection.refresh();
      return secret;
    },
    async sync(ref: string): Promise<Result<'source.sync'>> {
      const synced = await api('source.sync', { id, ...(ref !== '' && { ref }) });
      await connection.refresh();
      return synced;
    },
    async approve({ number, sha }: Connection['pulls'][number]) {
      await api('source.approve', { id, number, sha });
      await connection.refresh();
    },
    async disconnect() {
      await api('source.disconnect', { id });
      await connection.refresh();
    },
    close: connection.close,
  };
}

/** Reads a connection. `of` is null when the app is not connected. */
async function read(id: string, signal: AbortSignal): Promise<{ of: Connection | null }> {
  try {
    return { of: await api('source.get', { id }, { signal }) };
  } catch (error) {
    if (error instanceof Failure && error.code === 'source_not_connected') return { of: null };
    throw error;
  }
}
