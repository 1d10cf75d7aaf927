// The crons of an app. The host schedules them, and the app's processes run them.

import { pageOf } from '../paging.ts';
import type { Service } from '../types.ts';
import { requireApp } from './apps.ts';

const list: Service<'crons.list'> = async (context, { id, ...page }) => {
  const app = await requireApp(context, id);
  const items = await context.host.call('GET /apps/:id/crons', { id: app.id });
  return pageOf(`crons.list ${app.id}`, items, ({ cron }) => cron, page);
};

const run: Service<'crons.run'> = async (context, { id, cron }) => {
  const app = await requireApp(context, id);
  return context.host.call('POST /apps/:id/crons/run', { id: app.id }, { body: { cron } });
};

export const cronServices = { 'crons.list': list, 'crons.run': run };
