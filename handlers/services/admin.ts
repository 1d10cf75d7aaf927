// All of this Cellar.
import { countAll } from '../../sqlite/control/apps.ts';
import type { Service } from './types.ts';

const stats: Service<'admin.stats'> = async ({ db, host }) => {
  const [totals, hostStats] = await Promise.all([countAll(db), host.stats().catch(() => null)]);
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

const snapshot: Service<'admin.snapshot'> = ({ host }) => host.snapshot();

export const adminServices = { 'admin.stats': stats, 'admin.snapshot': snapshot };
