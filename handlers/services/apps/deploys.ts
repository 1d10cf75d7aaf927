// Deploys, and the git remote to push to.

import { type DeployRow, findDeploy, listDeploys } from '../../../sqlite/control/apps/deploys.ts';
import { findAccount } from '../../../sqlite/control/people/accounts.ts';
import type { Reader } from '../../../sqlite/control/reads.ts';
import { accountOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import type { Deploy, DeployLines } from '../../contract/apps/deploys.ts';
import { versionOf } from '../../contract/apps/versions.ts';
import type { DeployFact, DeployVersion, LinesFact } from '../../contract/host/host-calls.ts';
import { Problem } from '../../problem.ts';
import { decodeNumbers } from '../cursor.ts';
import { listAnswer, withoutCreation } from '../paging.ts';
import type { Service } from '../types.ts';
import { gitUrl, requireApp } from './apps.ts';

const list: Service<'deploys.list'> = async ({ reads }, { id, status, limit, cursor }) => {
  const name = `deploys.list ${id}`;
  const before = decodeNumbers(name, cursor, 1)?.[0] ?? null;
  return listAnswer(name, await listDeploys(reads, id, { status: status ?? null, before, limit }), toDeploy);
};

const get: Service<'deploys.get'> = async ({ reads }, { id, deploy_id }) =>
  toDeploy(await requireDeploy(reads, id, deploy_id));

const log: Service<'deploys.log'> = async ({ reads, host }, { id, deploy_id }) => {
  const deploy = await requireDeploy(reads, id, deploy_id);
  const kept = await host.call('GET /apps/:id/deploys/:deploy/log', { id, deploy: deploy_id });
  if (kept === null) throw new Problem('deploy_not_found');
  return { deploy_id, status: deploy.status, log: kept.text };
};

const rollback: Service<'deploys.rollback'> = async (context, { id, deploy_id }) => {
  await requireApp(context, id);
  const body = { deploy_id, by: await nameOf(context) };
  return shownDeploy(await context.host.call('POST /apps/:id/rollback', { id }, { body }));
};

const create: Service<'deploys.create'> = async (context, { id, deploy_id = null, ref = null }) => {
  if (deploy_id !== null && ref !== null) {
    const message = 'must be left out if deploy_id is given';
    throw new Problem('invalid_input', `ref: ${message}.`, [{ path: 'ref', message }]);
  }
  if (deploy_id !== null) await requireDeploy(context.reads, id, deploy_id);
  await requireApp(context, id);
  const body = { deploy_id, ref, by: await nameOf(context) };
  return shownDeploy(await context.host.call('POST /apps/:id/deploys', { id }, { body }));
};

const cancel: Service<'deploys.cancel'> = async (context, { id, deploy_id }) => {
  await requireDeploy(context.reads, id, deploy_id);
  const words = { id, deploy: deploy_id };
  const body = { by: await nameOf(context) };
  return shownDeploy(await context.host.call('POST /apps/:id/deploys/:deploy/cancel', words, { body }));
};

/** Returns the name of the caller's account, as text to show. */
export async function nameOf({ reads, actor }: Context): Promise<string> {
  const account = accountOf(actor);
  return account === null ? 'the runner token' : ((await findAccount(reads, account))?.name ?? account);
}

const remote: Service<'git.remote'> = async (context, { id }) => {
  const url = gitUrl(await requireApp(context, id), context.env);
  const withKey = url.replace('://', '://git:<API_KEY>@');
  return {
    url,
    url_with_key: withKey,
    username: 'git',
    branch: 'main',
    clone: `git clone "${withKey}"`,
    push: `git push "${withKey}" HEAD:main`,
  };
};

export const deployServices = {
  'deploys.list': list,
  'deploys.get': get,
  'deploys.log': log,
  'deploys.rollback': rollback,
  'deploys.create': create,
  'deploys.cancel': cancel,
  'git.remote': remote,
};

/** Returns a deploy of an app. @throws {Problem} `app_not_found`, `deploy_not_found` */
async function requireDeploy(reads: Reader, id: string, deployId: string): Promise<DeployRow> {
  const deploy = await findDeploy(reads, id, deployId);
  if (deploy === null) throw new Problem('app_not_found');
  if (deploy === undefined) throw new Problem('deploy_not_found');
  return deploy;
}

/** Converts a deploy from the host's format to the API's format. */
export function shownDeploy(fact: DeployFact): Deploy {
  const { warnings: _, ...shown } = withoutCreation(fact);
  return { ...shown, requested_by: fact.requested_by ?? null, version: versionOf(fact) };
}

/** Converts new lines of a deploy's log from the host's format to the format of `deploys.stream`. */
export function shownLines({ deploy_id, lines }: LinesFact): DeployLines {
  return { deploy_id, lines };
}

/** Converts a stored deploy to the API's format. */
export function toDeploy(row: DeployRow): Deploy {
  const steps = JSON.parse(row.steps) as DeployFact['steps'];
  const { requested_by, version, can_roll_back, ...rest } = row;
  const by = requested_by === null ? {} : { requested_by };
  const serves = version === null ? {} : { version: JSON.parse(version) as DeployVersion };
  return shownDeploy({ ...rest, ...by, ...serves, steps, can_roll_back: can_roll_back === 1 });
}
