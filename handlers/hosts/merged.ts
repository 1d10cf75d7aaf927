// Merges the answers of all hosts to calls that are not about one app. In a Cellar of one host, only that host is asked.
import type { AppRow } from '../../sqlite/control/apps/apps.ts';
import { listHosts } from '../../sqlite/control/hosts.ts';
import type { RequestContext } from '../context.ts';
import type { HostStats } from '../contract/admin.ts';
import type { KeptPlaces } from '../contract/host/host-releases.ts';
import type { HostOverview } from '../contract/host/host-routes.ts';
import { Problem } from '../problem.ts';
import { askHosts, HOST_ANSWER_MS } from './every-host.ts';
import { mergeMetrics } from './merged-metrics.ts';

type Asking = Pick<RequestContext, 'db' | 'env' | 'host'>;

/** Returns figures of apps, each from its home, and the sum of all hosts' memory. @throws {Problem} when no host answers */
export async function overviewOf(context: Asking, apps: AppRow[]): Promise<HostOverview> {
  const { env, host } = context;
  const ask = (home: string | undefined) => {
    const app_ids = apps.filter((app) => home === undefined || app.home === home).map(({ id }) => id);
    return host.call('POST /overview', {}, { query: { home }, body: { app_ids }, ...deadlineOf(home) });
  };
  if (!env.HOST_ID) return ask(undefined);
  const answers = answered(await askHosts(context, ask));
  const sum = (of: (overview: HostOverview) => number) =>
    answers.reduce((total, { answer }) => total + of(answer), 0);
  return {
    memory: {
      used_bytes: sum(({ memory }) => memory.used_bytes),
      limit_bytes: sum(({ memory }) => memory.limit_bytes),
    },
    apps: Object.assign({}, ...answers.map(({ answer }) => answer.apps)),
  };
}

export interface StatsOfHosts {
  /** Figures of the host that runs this control plane process; null when the host does not answer. */
  own: HostStats | null;
  others: { id: string; name: string; stats: HostStats }[];
}

/** Returns the figures of all hosts. */
export async function statsOf(context: Asking): Promise<StatsOfHosts> {
  const { env, host } = context;
  if (!env.HOST_ID) return { own: await host.call('GET /stats', {}).catch(() => null), others: [] };
  const answers = await askHosts(context, (home) =>
    host.call('GET /stats', {}, { query: { home }, ...deadlineOf(home) }),
  );
  const all = answers.map(({ host: { id, name }, answer: stats }) => ({ id, name, stats }));
  return {
    own: all.find(({ id }) => id === env.HOST_ID)?.stats ?? null,
    others: all.filter(({ id }) => id !== env.HOST_ID),
  };
}

/** Returns the metrics of all hosts in the format of Prometheus. @throws {Problem} when no host answers */
export async function metricsOf(context: Asking): Promise<string> {
  const { env, host } = context;
  const ask = async (home: string | undefined) =>
    (await host.bytes('GET /metrics', {}, { query: { home }, ...deadlineOf(home) })).text();
  if (!env.HOST_ID) return ask(undefined);
  const [hosts, found] = await Promise.all([listHosts(context.db), askHosts(context, ask)]);
  const texts = new Map(answered(found).map(({ host: { id }, answer }) => [id, answer]));
  return mergeMetrics(hosts.map(({ id, name }) => ({ id, name, text: texts.get(id) ?? null })));
}

/** Returns the storage of apps, from their homes. @throws {Problem} when no host answers */
export async function placesOf(context: Asking, ids: string[]): Promise<KeptPlaces[]> {
  const { env, host } = context;
  const ask = (home: string | undefined) =>
    host.call('POST /places', {}, { query: { home }, body: ids, ...deadlineOf(home) });
  if (!env.HOST_ID) return ask(undefined);
  return answered(await askHosts(context, ask)).flatMap(({ answer }) => answer);
}

function deadlineOf(home: string | undefined): { deadlineMs?: number } {
  return home === undefined ? {} : { deadlineMs: HOST_ANSWER_MS };
}

function answered<Answer>(answers: Answer[]): Answer[] {
  if (answers.length === 0) throw new Problem('host_unavailable');
  return answers;
}
