// The settings of an app: variables, limits, builds and its maintenance page.

import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import type { EnvRow, MaintenanceRow } from '../../../sqlite/control/apps/settings.ts';
import { countOtherEnv, listEnv, readMaintenance } from '../../../sqlite/control/apps/settings.ts';
import type { Context } from '../../context.ts';
import { ENV_LIMIT } from '../../contract/apps/env.ts';
import { ENV_BYTES } from '../../contract/sizes.ts';
import type { Env } from '../../env.ts';
import { Problem } from '../../problem.ts';
import { listAnswer, pageAfter, withoutCreation } from '../paging.ts';
import { Replaced, type Service } from '../types.ts';
import { changeApp, requireApp } from './apps.ts';

const envList: Service<'env.list'> = async ({ reads }, { id, ...page }) => {
  const name = `env.list ${id}`;
  return listAnswer(name, await listEnv(reads, id, pageAfter(name, page)), (row) => row);
};

const envSet: Service<'env.set'> = async (context, { id, name, value }) => {
  const change = { kind: 'env_set', name, value, limit: ENV_LIMIT, bytes: ENV_BYTES } as const;
  const { changed, row: app } = await changeApp(context, id, change);
  if (changed === null) throw await envRefusal(context, app.id, name);
  const row = changed as unknown as EnvRow & { created_at: string };
  const shown = withoutCreation(row);
  return row.created_at === row.updated_at ? shown : new Replaced(shown);
};

/** Returns why a variable was not set: the app has too many variables, or they would be too large in total. */
async function envRefusal({ db }: Context, id: string, name: string): Promise<Problem> {
  const others = await countOtherEnv(db, id, name);
  const [path, message] =
    others >= ENV_LIMIT
      ? ['name', `would be one more than the ${ENV_LIMIT} build variables an app may have; delete one first`]
      : [
          'value',
          `is too large: the names and values of all build variables may have at most ${ENV_BYTES} bytes together; shorten the value, or delete other variables`,
        ];
  return new Problem('quota_exceeded', `${path}: ${message}.`, [{ path, message }]);
}

const envDelete: Service<'env.delete'> = async (context, { id, name }) => {
  const { changed } = await changeApp(context, id, { kind: 'env_delete', name });
  if (changed === null) throw new Problem('env_not_found', `The app has no build variable ${name}.`);
  return null;
};

const limitsGet: Service<'limits.get'> = async (context, { id }) =>
  toLimits(await requireApp(context, id), context.env);

const limitsSet: Service<'limits.set'> = async (context, { id, clientRpm, appRpm }) => {
  const { row } = await changeApp(context, id, { kind: 'limits', clientRpm, appRpm });
  return toLimits(row, context.env);
};

const maintenanceGet: Service<'maintenance.get'> = async ({ reads }, { id }) => {
  const row = await readMaintenance(reads, id);
  if (row === null) throw new Problem('app_not_found');
  return toMaintenance(row);
};

const maintenanceSet: Service<'maintenance.set'> = async (context, { id, enabled, html }) => {
  const { changed } = await changeApp(context, id, { kind: 'maintenance', enabled, html });
  return toMaintenance(changed as unknown as MaintenanceRow);
};

const buildsGet: Service<'builds.get'> = async (context, { id }) => toBuilds(await requireApp(context, id));

const buildsSet: Service<'builds.set'> = async (context, { id, deploy_on: deployOn, ...settings }) => {
  const { row } = await changeApp(context, id, { kind: 'builds', settings, deployOn });
  return toBuilds(row);
};

export const settingServices = {
  'env.list': envList,
  'env.set': envSet,
  'env.delete': envDelete,
  'limits.get': limitsGet,
  'limits.set': limitsSet,
  'maintenance.get': maintenanceGet,
  'maintenance.set': maintenanceSet,
  'builds.get': buildsGet,
  'builds.set': buildsSet,
};

function toMaintenance({ maintenance, maintenance_html }: MaintenanceRow) {
  return { enabled: maintenance === 1, html: maintenance_html };
}

function toBuilds(row: AppRow) {
  const { root_directory, install_command, build_command, release_command, output_directory, deploy_on } =
    row;
  return { root_directory, install_command, build_command, release_command, output_directory, deploy_on };
}

function toLimits(row: AppRow, env: Env) {
  return {
    clientRpm: row.client_rpm,
    appRpm: row.app_rpm,
    defaults: { clientRpm: Number(env.SERVICE_EDGE_RPM), appRpm: Number(env.SERVICE_EDGE_APP_RPM) },
  };
}
