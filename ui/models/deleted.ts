// The deleted apps that the account can undelete.
import { api, type Result } from '../api.ts';
import type { Resource } from '../live.ts';
import type { Overview } from './apps.ts';
import { pages } from './pages.ts';

export type DeletedApp = Result<'apps.list_deleted'>['items'][number];

const LIMIT = 20;

/** @param apps the apps that are not deleted; when their ids change, the model reads the deleted apps again */
export function deletedModel(apps: Resource<Overview>) {
  const deleted = pages(
    (cursor, signal) => api('apps.list_deleted', { limit: LIMIT, cursor }, { signal }),
    ({ id }: DeletedApp) => id,
  );
  let known = idsOf(apps.data.peek());
  const stop = apps.data.subscribe((overview) => {
    const ids = idsOf(overview);
    if (ids === known) return;
    known = ids;
    void deleted.refresh();
  });
  return {
    deleted,
    undelete: ({ id }: DeletedApp, slug: string) => api('apps.undelete', { app: id, slug }),
    close() {
      stop();
      deleted.close();
    },
  };
}

function idsOf(overview: Overview | null): string {
  return (overview?.items ?? []).map(({ id }) => id).join(' ');
}
