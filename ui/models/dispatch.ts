// Dispatch namespaces, and the scripts of one.
import { api, type Result } from '../api.ts';
import { pages } from './pages.ts';

export type DispatchNamespace = Result<'dispatch.list'>['items'][number];
export type Script = Result<'apps.list'>['items'][number] & { dispatch: object };

const EVERY_MS = 15_000;
const LIMIT = 100;

export function dispatchModel() {
  const namespaces = pages(
    (cursor, signal) => api('dispatch.list', { limit: LIMIT, cursor }, { signal }),
    ({ id }: DispatchNamespace) => id,
    { everyMs: EVERY_MS },
  );
  return {
    namespaces,
    async delete({ owner, name }: DispatchNamespace) {
      await api('dispatch.delete', { owner: owner.id, dispatch: name });
      await namespaces.refresh();
    },
    close: namespaces.close,
  };
}

/** The scripts of a dispatch namespace, the newest first. @param owner the account that owns the namespace */
export function scriptsModel(owner: string, name: string) {
  const scripts = pages(
    (cursor, signal) =>
      api('apps.list', { owner, dispatch_namespace: name, limit: LIMIT, cursor }, { signal }) as Promise<{
        items: Script[];
        next_cursor: string | null;
      }>,
    ({ id }: Script) => id,
    { everyMs: EVERY_MS },
  );
  return {
    scripts,
    async delete({ id }: Script) {
      await api('apps.delete', { id });
      await scripts.refresh();
    },
    close: scripts.close,
  };
}
