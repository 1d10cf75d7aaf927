// Services for the whole Cellar.
import { countAll } from '../../sqlite/control/apps/apps.ts';
import { homeOf } from '../../sqlite/control/hosts.ts';
import { statsOf } from '../hosts/merged.ts';
import type { Service } from './types.ts';

const stats: Service<'admin.stats'> = async (context) => {
  const [totals, { own, others }] = await Promise.all([countAll(context.db), statsOf(context)]);
  const { by_status, accounts, domains, deploys, unfinished_deploys } = totals;
  const total = Object.values(by_status).reduce((sum, count) => sum + count, 0);
  return {
    apps: { total, by_status },
    accounts,
    domains,
    deploys: { total: deploys, unfinished: unfinished_deploys },
    host: own,
    other_hosts: others,
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

const restore: Service<'admin.restore'> = async ({ db, host }, input) => {
  const { snapshot, at, app, database = null, dry_run = false } = input;
  const home = (await homeOf(db, app)) ?? undefined;
  const which = snapshot === undefined ? { at: at! } : { key: snapshot };
  return host.call(
    'POST /snapshots/restore',
    {},
    { query: { home }, body: { snapshot: which, app, database, dry_run } },
  );
};

export const adminServices = {
  'admin.stats': stats,
  'admin.settings': settings,
  'admin.snapshot': snapshot,
  'admin.restore': restore,
  'snapshots.list': list,
  'snapshots.verify': verify,
};
