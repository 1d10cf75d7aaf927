// Lists and deletes dispatch namespaces.
import {
  deleteDispatchNamespace,
  findDispatchNamespace,
  pageOfDispatchNamespaces,
} from '../../../sqlite/control/apps/dispatch.ts';
import { seesAppsOf } from '../../access.ts';
import { Problem } from '../../problem.ts';
import { decodeCursor } from '../cursor.ts';
import { listAnswer } from '../paging.ts';
import type { Service } from '../types.ts';

const list: Service<'dispatch.list'> = async ({ reads, actor }, { limit, cursor }) => {
  const [name, owner] = decodeCursor('dispatch.list', cursor, 2) ?? [];
  const filter = { owner: seesAppsOf(actor), after: [name ?? '', owner ?? ''] as const, limit };
  return listAnswer('dispatch.list', await pageOfDispatchNamespaces(reads, filter), (row) => ({
    id: row.id,
    name: row.name,
    owner: { id: row.owner_id, name: row.owner_name },
    scripts: row.scripts,
    created_at: row.created_at,
  }));
};

const remove: Service<'dispatch.delete'> = async ({ db, reads, actor }, { owner, dispatch }) => {
  const sees = seesAppsOf(actor);
  const found = sees === null || sees === owner ? await findDispatchNamespace(reads, owner, dispatch) : null;
  if (found === null) throw new Problem('dispatch_not_found', `There is no dispatch namespace ${dispatch}.`);
  if (await deleteDispatchNamespace(db, owner, dispatch)) return null;
  throw new Problem(
    'dispatch_in_use',
    `The dispatch namespace ${dispatch} has ${found.scripts} scripts: delete them first.`,
  );
};

export const dispatchServices = { 'dispatch.list': list, 'dispatch.delete': remove };
