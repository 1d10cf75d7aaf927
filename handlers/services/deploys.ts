// Deploys, and where to push to for one.
import { type DeployRow, findDeploy, listDeploys } from '../../sqlite/control/deploys.ts';
import type { Deploy } from '../contract/deploys.ts';
import { decodeCursor, encodeCursor } from '../cursor.ts';
import { Problem } from '../problem.ts';
import { gitUrl, requireApp } from './apps.ts';
import type { Service } from './types.ts';

const list: Service<'deploys.list'> = async ({ db }, { id, status, limit, cursor }) => {
  const before = decodeCursor(cursor, 2) as [string, string] | null;
  const page = await listDeploys(db, id, { status: status ?? null, before, limit });
  if (page === null) throw new Problem('app_not_found');
  return { items: page.rows.map(toDeploy), next_cursor: encodeCursor(page.next) };
};

const log: Service<'deploys.log'> = async ({ db, host }, { id, deploy_id }) => {
  const deploy = await findDeploy(db, id, deploy_id);
  if (deploy === null) throw new Problem('app_not_found');
  const text = deploy && (await host.deployLog(id, deploy_id));
  if (deploy === undefined || text === null || text === undefined) throw new Problem('deploy_not_found');
  return { deploy_id, status: deploy.status, log: text };
};

const remote: Service<'git.remote'> = async (context, { id }) => {
  const url = gitUrl(await requireApp(context, id), context.env);
  return {
    url,
    url_with_key: url.replace('://', '://git:<API_KEY>@'),
    username: 'git',
    branch: 'main',
  };
};

export const deployServices = {
  'deploys.list': list,
  'deploys.log': log,
  'git.remote': remote,
};

export function toDeploy(row: DeployRow): Deploy {
  const { created_at: _, steps, ...shown } = row;
  return { ...shown, steps: JSON.parse(steps) as Deploy['steps'] };
}
