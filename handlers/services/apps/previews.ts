// Previews of apps. The host creates previews without the control plane. An app's settings for previews apply to all its
// previews.

import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import { readPreviewVars } from '../../../sqlite/control/apps/settings.ts';
import { findAccount } from '../../../sqlite/control/people/accounts.ts';
import { accountOf } from '../../access.ts';
import type { Preview } from '../../contract/apps/previews.ts';
import type { HostPreview } from '../../contract/host/host-calls.ts';
import { Problem } from '../../problem.ts';
import { decodeNumbers, encodeCursor } from '../cursor.ts';
import type { Service } from '../types.ts';
import { changeApp, requireApp } from './apps.ts';
import { shownDeploy } from './deploys.ts';

/** Format of the names of previews. A name in another format is refused without a call to the host. */
const NAME = /^[a-z0-9-]{3,63}$/;

const get: Service<'previews.get'> = async (context, { id }) => {
  const [row, vars] = await Promise.all([requireApp(context, id), readPreviewVars(context.reads, id)]);
  return settingsOf(row, vars);
};

const set: Service<'previews.set'> = async (context, { id, branches, storage, vars }) => {
  const text = vars && JSON.stringify(vars);
  const { row } = await changeApp(context, id, { kind: 'previews', branches, storage, vars: text });
  return settingsOf(row, await readPreviewVars(context.reads, id));
};

const list: Service<'previews.list'> = async (context, { id, limit, cursor }) => {
  const { slug } = await requireApp(context, id);
  const name = `previews.list ${id}`;
  const from = decodeNumbers(name, cursor, 1)?.[0] ?? 0;
  const all = await context.host.call('GET /apps/:id/previews', { id });
  const items = all
    .slice(from, from + limit)
    .map((preview) => shown(preview, slug, context.env.PUBLIC_APP_URL));
  const next = from + limit < all.length ? encodeCursor(name, [String(from + limit)]) : null;
  return { items, next_cursor: next };
};

const log: Service<'previews.log'> = async (context, { id, preview }) => {
  await requireApp(context, id);
  return context.host.call('GET /apps/:id/previews/:preview/log', { id, preview: requireName(preview) });
};

const promote: Service<'previews.promote'> = async (context, { id, preview }) => {
  const name = requireName(preview);
  const account = accountOf(context.actor);
  const author = account === null ? '' : ((await findAccount(context.reads, account))?.name ?? '');
  await requireApp(context, id);
  const words = { id, preview: name };
  return shownDeploy(
    await context.host.call('POST /apps/:id/previews/:preview/promote', words, { body: { author } }),
  );
};

const remove: Service<'previews.delete'> = async (context, { id, preview }) => {
  await requireApp(context, id);
  return context.host.call('DELETE /apps/:id/previews/:preview', { id, preview: requireName(preview) });
};

export const previewServices = {
  'previews.get': get,
  'previews.set': set,
  'previews.list': list,
  'previews.log': log,
  'previews.promote': promote,
  'previews.delete': remove,
};

/** Returns an app's settings for previews. @throws {Problem} `app_not_found` when `vars` is null: the app does not exist */
function settingsOf({ previews_branches, previews_storage }: AppRow, vars: string | null) {
  if (vars === null) throw new Problem('app_not_found');
  const overrides = JSON.parse(vars) as Record<string, unknown>;
  return { branches: previews_branches === 1, storage: previews_storage, vars: overrides };
}

function requireName(name: string): string {
  if (!NAME.test(name)) throw new Problem('preview_not_found');
  return name;
}

function shown({ deploy, names: _, ...preview }: HostPreview, slug: string, url: string): Preview {
  const { name } = preview;
  return {
    ...preview,
    url: url.replace('{slug}', `${name}--${slug}`),
    deploy: deploy && {
      id: deploy.id,
      sha: deploy.sha,
      message: deploy.message,
      author: deploy.author,
      status: deploy.status,
      error: deploy.error,
      started_at: deploy.started_at,
      finished_at: deploy.finished_at,
    },
  };
}
