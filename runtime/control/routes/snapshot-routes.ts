// The host's routes to snapshots.
import type { HostCall } from '../../../handlers/contract/host/host-routes.ts';
import type { DiskWatch } from '../../disk/disk-watch.ts';
import { reason } from '../../log.ts';
import { noSuchApp, Refusal, requireRoom } from '../../refusal.ts';
import { NoRoom, NotThere, Unusable } from '../../snapshots/errors.ts';
import { dryRun } from '../../snapshots/restore/dry-run.ts';
import { type ReplaceOptions, replaceStorage } from '../../snapshots/restore/replace.ts';
import type { Head } from '../../snapshots/store/manifest.ts';
import { type HostRoutes, readJson, refusalOf } from '../host-call.ts';

export type SnapshotCall = Extract<HostCall, `${string} /snapshots${string}`>;

export interface SnapshotRouteOptions extends ReplaceOptions {
  disk: DiskWatch;
}

export function snapshotRoutes(options: SnapshotRouteOptions): Pick<HostRoutes, SnapshotCall> {
  const { disk, snapshots, apps } = options;
  return {
    'GET /snapshots': async () => (await snapshots.list().catch(refuse)).map(shown),
    'POST /snapshots/verify': () => snapshots.verify().catch(refuse),
    'POST /snapshots': async () => {
      requireRoom(disk);
      const { head, bytes } = await snapshots.take('asked for').catch(refuse);
      return { key: head.id, bytes, created_at: head.created_at, left_out: head.left_out };
    },
    'POST /snapshots/restore': async ({ request }) => {
      const { snapshot, app, database, dry_run } = await readJson<'POST /snapshots/restore'>(request);
      const id = apps.find(app);
      if (id === undefined) throw noSuchApp();
      const wanted = { snapshot, app: id, database };
      if (dry_run) {
        const { head, changes, problem } = await dryRun(options, wanted).catch(refuse);
        const answer = { snapshot: head.id, created_at: head.created_at, app: id, database };
        return { ...answer, before: null, changes, problem };
      }
      requireRoom(disk);
      const { restored, before } = await replaceStorage(options, wanted).catch(refuse);
      const answer = { snapshot: restored.id, created_at: restored.created_at, app: id, database };
      return { ...answer, before, changes: null, problem: null };
    },
  };
}

function shown({ id, created_at, why, bytes, written, apps, failures, left_out }: Head) {
  return { key: id, created_at, why, bytes, written_bytes: written, apps, failures, left_out };
}

function refuse(error: unknown): never {
  if (error instanceof NotThere) throw new Refusal(404, 'snapshot_not_found', error.message);
  if (error instanceof Unusable) throw new Refusal(422, 'snapshot_unusable', error.message);
  if (error instanceof NoRoom) throw new Refusal(507, 'insufficient_storage', error.message);
  throw refusalOf(error) ?? new Refusal(502, 'snapshot_failed', reason(error));
}
