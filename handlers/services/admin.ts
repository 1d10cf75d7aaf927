// Services for the whole Cellar.
import { countAll } from '../../sqlite/control/apps/apps.ts';
import type { Service } from './types.ts';

const stats: Service<'admin.stats'> = async ({ db, host }) => {
  const [totals, hostStats] = await Promise.all([
    countAll(db),
    host.call('GET /stats', {}).catch(() => null),
  ]);
  const { by_status, accounts, domains, deploys, unfinished_deploys } = totals;
  const total = Object.values(by_status).reduce((sum, count) => sum + count, 0);
  return {
    apps: { total, by_status },
    accounts,
    domains,
    deploys: { total: deploys, unfinished: unfinished_deploys },
    host: hostStats,
  };
};

const settings: Service<'admin.settings'> = ({ host }) => host.call('GET /settings', {});

const snapshot: Service<'admin.snapshot'> = ({ host }) => host.call('POST /snapshots', {});

/** The cursor is the key of the page's last snapshot. */
const list: Service<'snapshots.list'> = async ({ host }, { limit, cursor }) => {
  const all = await host.call('GET /snapshots', {});
  const left = all.filter(({ key }) => cursor === undefined || key < cursor);
  const items = left.slice(0, limit);
  return { items, next_cursor: left.length > limit ? items.at(-1)!.key : null };
};

const verify: Service<'snapshots.verify'> = ({ host }) => host.call('POST /snapshots/verify', {});

const restore: Service<'admin.restore'> = ({ host }, { snapshot, app, database = null }) =>
  host.call('POST /snapshots/restore', {}, { body: { snapshot, app, database } });

export const adminServices = {
  'admin.stats': stats,
  'admin.settings': settings,
  'admin.snapshot': snapshot,
  'admin.restore': restore,
  'snapshots.list': list,
  'snapshots.verify': verify,
};
