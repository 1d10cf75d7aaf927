// The machine: its state, snapshots and settings.

import { signal } from '@preact/signals';
import { changedFiles, storageName } from '../../handlers/contract/storage/restore-words.ts';
import { api, type Result } from '../api.ts';
import { resource } from '../live.ts';
import { bytes, dollars } from '../parts/format.ts';
import { pages } from './pages.ts';

export type Stats = Result<'admin.stats'>;
export type HostStats = NonNullable<Stats['host']>;
export type Snapshot = Result<'snapshots.list'>['items'][number];
export type Setting = Result<'admin.settings'>['items'][number];

const EVERY_MS = 5_000;
/** Maximum apps that have separate parts in the memory bar. */
const BAR_APPS = 8;

export function machineModel() {
  const stats = resource((signal) => api('admin.stats', {}, { signal }), { everyMs: EVERY_MS });
  return { stats, close: stats.close };
}

/** A part of the memory bar, in bytes. */
export interface Part {
  name: string;
  bytes: number;
  kind: 'app' | 'apps' | 'cellar' | 'other';
}

/** Returns the users of the machine's memory, the largest app first, and the length of the bar. */
export function memoryParts({ apps, cells, rss_bytes, memory }: HostStats): { parts: Part[]; total: number } {
  const awake = apps.filter(({ memory_bytes }) => (memory_bytes ?? 0) > 0);
  const shown = awake.slice(0, BAR_APPS);
  const parts: Part[] = shown.map(({ slug, memory_bytes }) => ({
    name: slug,
    bytes: memory_bytes!,
    kind: 'app',
  }));
  const inShown = parts.reduce((sum, { bytes }) => sum + bytes, 0);
  const others = Math.max(0, cells.memory_bytes - inShown);
  if (others > 0 && cells.running > shown.length)
    parts.push({ name: 'other apps', bytes: others, kind: 'apps' });
  parts.push({ name: 'Cellar', bytes: Math.min(rss_bytes, memory.used_bytes), kind: 'cellar' });
  const known = parts.reduce((sum, { bytes }) => sum + bytes, 0);
  parts.push({ name: 'everything else', bytes: Math.max(0, memory.used_bytes - known), kind: 'other' });
  // Leaves space after the limit, so that the limit's mark is not at the end of the bar.
  return { parts, total: Math.max(memory.used_bytes, known, memory.limit_bytes * 1.15) };
}

/** Returns the monthly cost of requests to the bucket, in words. */
export function bucketCost({ monthly_usd }: NonNullable<HostStats['bucket']>): string {
  return monthly_usd === null
    ? 'No estimate in the first hour, or without RUNNER_BUCKET_PRICES'
    : `About ${dollars(monthly_usd)} a month, with the control plane`;
}

/** Returns what needs attention on the machine, in sentences. */
export function attention({ host, deploys }: Stats): string[] {
  if (host === null)
    return ['The host does not answer. Running apps are not affected; this page retries automatically.'];
  const said: string[] = [];
  if (host.memory.over)
    said.push(
      'The memory limit is reached: apps that would have to start answer 503. Stop unused apps, or raise RUNNER_FLEET_MAX_RSS_MB.',
    );
  if (host.disk.short) said.push('Disk space is low: nothing is deployed or uploaded until more is free.');
  if (!host.control_plane.answers) said.push('The control plane does not answer. It is being started again.');
  if (host.snapshots.problem !== null) said.push(`Snapshots have a problem: ${host.snapshots.problem}`);
  if (host.snapshots.newest_damaged)
    said.push('The newest snapshot is damaged. Take a new one: it does not reuse damaged files.');
  if (host.bucket !== null && host.bucket.problem !== null)
    said.push(`The bucket cannot be used, so apps with data there do not answer: ${host.bucket.problem}`);
  if (host.queues.outbox_refused > 0)
    said.push('The control plane refuses facts of an app; the log of Cellar says which.');
  if (host.queues.starts_waiting > 0 && deploys.unfinished === 0 && host.queues.starts_waiting > 20)
    said.push(`${host.queues.starts_waiting} apps wait for their turn to start.`);
  return said;
}

/** Returns what a restore would change, in sentences. */
export function changesOf({ changes, problem }: Result<'admin.restore'>): string[] {
  if (problem !== null) return [`Cellar cannot tell which data would be lost: ${problem}`];
  const said = (changes ?? []).flatMap((change) => {
    const files = changedFiles(change);
    const lost = change.lost_bytes > 0 ? `, ${bytes(change.lost_bytes)} written since are lost` : '';
    return files === '' ? [] : [`${storageName(change)}: ${files}${lost}`];
  });
  return said.length > 0 ? said : ['The storage is as in the snapshot: nothing would change.'];
}

export function snapshotsModel() {
  const snapshots = pages(
    (cursor, signal) => api('snapshots.list', { limit: 50, cursor }, { signal }),
    ({ key }: Snapshot) => key,
  );
  const stats = resource((signal) => api('admin.stats', {}, { signal }), { everyMs: EVERY_MS });
  const apps = resource((signal) => api('apps.list', { limit: 200 }, { signal }));
  const taking = signal(false);
  const verifying = signal(false);
  return {
    snapshots,
    stats,
    apps,
    taking,
    verifying,
    async take() {
      taking.value = true;
      try {
        const { bytes } = await api('admin.snapshot', {});
        await snapshots.refresh();
        return bytes;
      } finally {
        taking.value = false;
      }
    },
    /** Checks all objects that snapshots need. @returns the result */
    async verify() {
      verifying.value = true;
      try {
        const verified = await api('snapshots.verify', {});
        await stats.refresh();
        return verified;
      } finally {
        verifying.value = false;
      }
    },
    /**
     * Restores an app's storage from a snapshot.
     * @param database the id of a D1 database of the app; empty for all storage
     * @returns the key of a snapshot of the state before; null when that state could not be read
     */
    async restore(snapshot: string, app: string, database: string): Promise<string | null> {
      const { before } = await api('admin.restore', { snapshot, app, ...(database !== '' && { database }) });
      await snapshots.refresh();
      return before;
    },
    /** Returns what a restore would change. @param database as in `restore` */
    compare(snapshot: string, app: string, database: string): Promise<Result<'admin.restore'>> {
      const wanted = { snapshot, app, ...(database !== '' && { database }) };
      return api('admin.restore', { ...wanted, dry_run: true });
    },
    async databasesOf(app: string): Promise<string[]> {
      const { databases } = await api('storage.overview', { id: app });
      return databases.map(({ id }) => id);
    },
    close() {
      snapshots.close();
      stats.close();
      apps.close();
    },
  };
}

export function settingsModel() {
  const settings = resource(async (signal) => (await api('admin.settings', {}, { signal })).items);
  return { settings, close: settings.close };
}
