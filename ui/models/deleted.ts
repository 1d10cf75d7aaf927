// The deleted apps that the account can undelete.
import { api, type Result } from '../api.ts';
import { pages } from './pages.ts';

export type DeletedApp = Result<'apps.list_deleted'>['items'][number];

const EVERY_MS = 30_000;
const LIMIT = 20;

export function deletedModel() {
  const deleted = pages(
    (cursor, signal) => api('apps.list_deleted', { limit: LIMIT, cursor }, { signal }),
    ({ id }: DeletedApp) => id,
    { everyMs: EVERY_MS },
  );
  return {
    deleted,
    undelete: ({ id }: DeletedApp, slug: string) => api('apps.undelete', { app: id, slug }),
    close: deleted.close,
  };
}
