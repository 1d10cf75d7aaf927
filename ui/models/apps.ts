// The apps that the account may see, and which of them need attention.
import { computed } from '@preact/signals';
import { api, type Result } from '../api.ts';
import { resource } from '../live.ts';
import { queryOf } from '../router.ts';

export type Overview = Result<'apps.overview'>;
export type App = Overview['items'][number];

const EVERY_MS = 15_000;

/** All apps with their figures, the apps that match the filter (`q` in the query), and totals. */
export function appsModel() {
  const apps = resource((signal) => api('apps.overview', {}, { signal }), { everyMs: EVERY_MS });
  const filter = computed(() => queryOf('q').trim().toLowerCase());
  const shown = computed(() => (apps.data.value?.items ?? []).filter((app) => matches(app, filter.value)));
  const sums = computed(() => sumsOf(apps.data.value));
  return { apps, shown, sums, close: apps.close };
}

/** Whether an app's name, status or last deploy contains the typed text. */
export function matches({ slug, status, last_deploy }: App, typed: string): boolean {
  return [slug, status, last_deploy?.message ?? '', last_deploy?.author ?? ''].some((text) =>
    text.toLowerCase().includes(typed),
  );
}

/** Returns why an app needs attention; null when it does not. */
export function attention({
  status,
  figures,
  last_deploy,
}: Pick<App, 'status' | 'figures' | 'last_deploy'>): string | null {
  if (status === 'crashed') return 'crashed';
  if (last_deploy?.status === 'failed') return 'its last deploy failed';
  if (figures && figures.open_errors > 0)
    return figures.open_errors === 1 ? 'one open error' : `${figures.open_errors} open errors`;
  return null;
}

/** One app, and whether it is idle. Polls both every `everyMs`. */
export function oneApp(id: string, everyMs: number) {
  const app = resource((signal) => api('apps.get', { id }, { signal }), { everyMs });
  const figures = resource((signal) => api('apps.figures', { id }, { signal }), { everyMs });
  return {
    app,
    isIdle: computed(() => {
      const read = app.data.value;
      return read !== null && isIdle({ status: read.status, figures: figures.data.value });
    }),
    close() {
      app.close();
      figures.close();
    },
  };
}

/** Whether an app is idle: it has a live release and no process, and its next request or due work starts one. */
export function isIdle({ status, figures }: Pick<App, 'status' | 'figures'>): boolean {
  return status === 'running' && figures !== null && figures.memory_bytes === null;
}

/** Returns the share of requests that were answered with 5xx; null without figures or requests. */
export function errorRate(figures: App['figures']): number | null {
  if (figures === null) return null;
  const requests = figures.requests.reduce((sum, each) => sum + each, 0);
  return requests === 0 ? null : figures.errors / requests;
}

export function sumsOf(overview: Overview | null) {
  const items = overview?.items ?? [];
  const isAwake = ({ figures }: App) => figures !== null && figures.memory_bytes !== null;
  return {
    total: items.length,
    awake: items.filter(isAwake).length,
    perMinute: items.reduce((sum, { figures }) => sum + (figures?.requests_per_minute ?? 0), 0),
    memory: items.reduce((sum, { figures }) => sum + (figures?.memory_bytes ?? 0), 0),
    machine: overview?.memory ?? null,
    attention: items.filter((app) => attention(app) !== null),
  };
}
