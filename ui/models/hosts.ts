// The hosts of a Cellar that runs on several machines, their apps, and moving an app to another host.
import { api, type Result } from '../api.ts';
import { resource } from '../live.ts';
import { plural } from '../parts/format.ts';
import { pages } from './pages.ts';

export type Host = Result<'hosts.list'>['items'][number];
type App = Result<'apps.list'>['items'][number];

const EVERY_MS = 5_000;
const LIMIT = 200;
const APPS = 50;
/** A larger difference between a host's clock and the bucket's needs attention, in ms. */
const CLOCK_MS = 1_000;

export function hostsModel() {
  const hosts = pages(
    (cursor, signal) => api('hosts.list', { limit: LIMIT, cursor }, { signal }),
    ({ id }: Host) => id,
    { everyMs: EVERY_MS },
  );
  return {
    hosts,
    async drain(host: string, drain: boolean) {
      await api('hosts.drain', { host, drain });
      await hosts.refresh();
    },
    remove: (host: string) => api('hosts.remove', { host }),
    close: hosts.close,
  };
}

export function appsOfHostModel(host: string) {
  return pages(
    (cursor, signal) => api('apps.list', { host, limit: APPS, cursor }, { signal }),
    ({ id }: App) => id,
    { everyMs: EVERY_MS },
  );
}

/** The hosts that an app can move to. */
export function homeModel(id: string, home: string) {
  const hosts = resource(async (signal) =>
    (await api('hosts.list', { limit: LIMIT }, { signal })).items.filter(
      (host) => host.state === 'active' && host.id !== home,
    ),
  );
  return { hosts, move: (host: string) => api('apps.move', { id, host }), close: hosts.close };
}

/** Returns the load of a host; null when it is unknown, as for a silent host. */
export function loadOf({ state, load }: Host): Host['load'] {
  return state === 'silent' ? null : load;
}

/** Whether a host's clock differs so much from the bucket's that it needs attention. */
export function isClockOff({ clock_ahead_ms: ms }: Pick<Host, 'clock_ahead_ms'>): boolean {
  return ms !== null && Math.abs(ms) > CLOCK_MS;
}

/** Returns what needs attention on the hosts, in sentences. */
export function attention(hosts: readonly Host[]): string[] {
  const said: string[] = [];
  for (const { name, state, local_apps } of hosts) {
    if (state !== 'silent') continue;
    const stay = local_apps === 0 ? '' : ` ${plural(local_apps, 'app')} with data on that host answer 503.`;
    said.push(`${name} does not report. Its apps in the bucket run on other hosts.${stay}`);
  }
  for (const host of hosts)
    if (isClockOff(host))
      said.push(
        `The clock of ${host.name} differs from the bucket’s. Synchronise its clock: if the difference is more than 2 s, no app with data in the bucket runs on that host.`,
      );
  const versions = new Set(hosts.filter(({ state }) => state !== 'silent').map(({ version }) => version));
  if (versions.size > 1)
    said.push(`The hosts run different versions: ${[...versions].join(', ')}. Upgrade the older ones.`);
  return said;
}
