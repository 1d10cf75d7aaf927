// Where an app's requests come from, and what they ask for.
import { api, type Result } from '../../api.ts';
import { pages } from '../pages.ts';

export type CountedPath = Result<'paths.list'>['items'][number];
export type CountedReferrer = Result<'refs.list'>['items'][number];
export type CountedDevice = Result<'devices.list'>['items'][number];
export type CountedCountry = Result<'countries.list'>['items'][number];

const PAGE = 10;
/** Polling interval of each list, in ms. */
const EVERY_MS = 30_000;

/** The four breakdowns of an app's requests, highest count first. @param hours length of the range */
export function trafficModel(id: string, hours: number) {
  const list = <Item>(
    load: (
      cursor: string | undefined,
      signal?: AbortSignal,
    ) => Promise<{ items: Item[]; next_cursor: string | null }>,
    keyOf: (item: Item) => string,
  ) => pages(load, keyOf, { everyMs: EVERY_MS });
  const asked = { id, hours, limit: PAGE };
  const paths = list(
    (cursor, signal) => api('paths.list', { ...asked, cursor }, { signal }),
    ({ path }: CountedPath) => path ?? '',
  );
  const referrers = list(
    (cursor, signal) => api('refs.list', { ...asked, cursor }, { signal }),
    ({ referrer, source }: CountedReferrer) => `${source} ${referrer}`,
  );
  const devices = list(
    (cursor, signal) => api('devices.list', { ...asked, cursor }, { signal }),
    ({ kind, client, os }: CountedDevice) => `${kind} ${client} ${os}`,
  );
  const countries = list(
    (cursor, signal) => api('countries.list', { ...asked, cursor }, { signal }),
    ({ country }: CountedCountry) => country ?? '',
  );
  return {
    paths,
    referrers,
    devices,
    countries,
    close() {
      for (const each of [paths, referrers, devices, countries]) each.close();
    },
  };
}

/** Names a country by its two letters: `DE` is Germany. */
export function countryName(code: string): string {
  return new Intl.DisplayNames(['en'], { type: 'region' }).of(code) ?? code;
}

/** Names a device: `Chrome on Linux, desktop`. */
export function deviceName({ kind, client, os }: CountedDevice): string {
  if (kind === 'other') return 'Others';
  const program = [client, os].filter((part) => part !== null).join(' on ');
  if (kind === 'unknown' && program === '') return 'Unknown';
  return program === '' ? kind : `${program}, ${kind}`;
}

/** Names where requests came from. */
export function referrerName({ referrer, source }: CountedReferrer): string {
  if (source === 'none') return 'Direct, or unknown';
  if (source === 'other') return 'Others';
  return source === 'own' ? `${referrer}, this app` : referrer!;
}

/** Returns the part of a path pattern before its first placeholder: `/users/:id` gives `/users/`. */
export function searchedPath(path: string): string {
  return path.replace(/:.*$/, '');
}
