// Variables of Workers. The configuration of the live release has them; the control plane stores their overrides.

import { listVars, type VarRow } from '../../../sqlite/control/apps/settings.ts';
import type { Var } from '../../contract/apps/secrets.ts';
import { VARS_LIMIT } from '../../contract/sizes.ts';
import { Problem } from '../../problem.ts';
import { pageOf } from '../paging.ts';
import { Replaced, type Service } from '../types.ts';
import { changeApp } from './apps.ts';

const list: Service<'vars.list'> = async (context, { id, ...page }) => {
  const overrides = await listVars(context.reads, id);
  if (overrides === null) throw new Problem('app_not_found');
  const release = await context.host.call('GET /apps/:id/release', { id });
  const items = shown(release?.vars ?? {}, overrides);
  return pageOf(`vars.list ${id}`, items, ({ name }) => name, page);
};

const set: Service<'vars.set'> = async (context, { id, name, value }) => {
  const change = { kind: 'vars_set', name, value: JSON.stringify(value), limit: VARS_LIMIT } as const;
  const { changed } = await changeApp(context, id, change);
  if (changed === null) {
    const message = `would be one more than the ${VARS_LIMIT} overrides an app may have; remove one first`;
    throw new Problem('quota_exceeded', `name: ${message}.`, [{ path: 'name', message }]);
  }
  const { created_at, updated_at } = changed as unknown as VarRow & { created_at: string };
  const output = { name, value, updated_at, ...(await context.host.call('POST /apps/:id/renew', { id })) };
  return created_at === updated_at ? output : new Replaced(output);
};

const unset: Service<'vars.unset'> = async (context, { id, name }) => {
  const { changed } = await changeApp(context, id, { kind: 'vars_unset', name });
  if (changed === null)
    throw new Problem('var_not_found', `The app has no override of the variable ${name}.`);
  return context.host.call('POST /apps/:id/renew', { id });
};

export const varServices = {
  'vars.list': list,
  'vars.set': set,
  'vars.unset': unset,
};

function shown(configured: Record<string, unknown>, overrides: VarRow[]): Var[] {
  const vars = new Map<string, Var>(
    Object.entries(configured).map(([name, value]) => [name, { name, value, override: null }]),
  );
  for (const { name, value, updated_at } of overrides)
    vars.set(name, {
      name,
      value: JSON.parse(value) as unknown,
      override: { replaces: vars.has(name), updated_at },
    });
  return [...vars.values()];
}
