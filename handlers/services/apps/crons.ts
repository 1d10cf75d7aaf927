// The crons of an app. The host schedules them, and the app's processes run them.

import { pageOf } from '../paging.ts';
import type { Service } from '../types.ts';

const list: Service<'crons.list'> = async (context, { id, ...page }) => {
  const items = await context.host.call('GET /apps/:id/crons', { id });
  return pageOf(`crons.list ${id}`, items, ({ cron }) => cron, page);
};

const run: Service<'crons.run'> = (context, { id, cron }) =>
  context.host.call('POST /apps/:id/crons/run', { id }, { body: { cron } });

export const cronServices = { 'crons.list': list, 'crons.run': run };
