// The base of every part: the settings, the open data directory, and the users of apps.
import { mkdirSync, rmSync } from 'node:fs';
import { openHostStore } from '../../sqlite/host/index.ts';
import type { Addresses } from '../addresses.ts';
import { Secrets } from '../apps/secrets.ts';
import { Bucket } from '../bucket/bucket.ts';
import { clusterKeyOf } from '../bucket/cluster-key.ts';
import { claimBucket, proofOf } from '../bucket/owner.ts';
import { bucketPlace } from '../bucket/place.ts';
import { shareSecrets, storeSecrets } from '../bucket/records/secrets.ts';
import type { Config } from '../config.ts';
import { isInBucket } from '../control/config.ts';
import { claim, keptSecret, type Layout, layout } from '../disk/data-directory.ts';
import { DiskWatch } from '../disk/disk-watch.ts';
import { trashTrials } from '../fleets/life/trial.ts';
import { forgetProcessesOfCopy } from '../fleets/process/copied.ts';
import { workerdPath } from '../fleets/process/start-cell.ts';
import { writeAskingHooks, writeHooks } from '../git/repository.ts';
import { Gate } from '../hosts/gate.ts';
import { Homes } from '../hosts/homes.ts';
import { Isolation } from '../isolation/isolation.ts';
import { PublicAddresses } from '../isolation/private-networks.ts';
import { allUids, appUsers } from '../isolation/users.ts';
import { finishMovedData } from '../move/moved-data.ts';
import { endOrphanedProcesses } from '../processes/orphaned-processes.ts';
import { finishMoves } from '../snapshots/restore/moves.ts';

export type Base = ReturnType<typeof makeBase>;

/**
 * Locks and opens the data directory, and makes what every other part needs.
 * @throws {Error} when another host uses the data directory, a newer Cellar wrote it, or `RUNNER_BUCKET` is missing for the
 *   control plane's data
 */
export function makeBase(config: Config) {
  const paths = layout(config.RUNNER_DATA_DIR);
  const place = bucketPlace(config);
  const clusterKey = place === null ? '' : clusterKeyOf(config, paths);
  const { release, disk, token, store } = openDataDirectory(config, paths);
  const workerd = workerdPath();
  if (place === null && isInBucket(paths.control))
    throw new Error(
      'RUNNER_BUCKET: the control plane keeps its data in a bucket; set RUNNER_BUCKET and the other settings of that bucket',
    );
  const address = config.RUNNER_ADDRESS;
  const gate = new Gate();
  const people = appUsers(paths, store.buildUsers, workerd);
  /** Null until the ports are known. */
  const known: { addresses: Addresses | null } = { addresses: null };
  return {
    config,
    paths,
    release,
    disk,
    token,
    store,
    workerd,
    known,
    clusterKey,
    /** Null without a bucket. */
    bucket:
      place &&
      new Bucket({
        place,
        clusterKey,
        records: store.records,
        claim: async () => {
          const [cellar, machine] = [store.snapshots.cellar(), store.snapshots.machine()];
          await store.synced();
          const hasData =
            isInBucket(paths.control) || store.apps.all().some(({ wanted }) => wanted.storage === 'bucket');
          const several = address !== null;
          const own = { cellar, machine, several, proof: proofOf(clusterKey, cellar) };
          await claimBucket(place, own, hasData);
          await (several ? shareSecrets : storeSecrets)(place, paths, clusterKey);
        },
        user: () => people.users('bucket-proxy').cell,
        paths,
        removals: store.folderRemovals,
        hosts: address === null ? undefined : { host: address.host, gate },
        self: address === null ? null : store.snapshots.machine(),
        floorMb: config.RUNNER_DISK_FLOOR_MB,
      }),
    /** Whether this host, as one of several, may run apps in the bucket. */
    gate,
    /** Which host runs each app; null when this is the only host. */
    homes: address && new Homes(store.snapshots.machine(), config.RUNNER_BASE_DOMAIN),
    /** Authenticates the host to the control plane and the control UI. */
    secret: keptSecret(paths.hostSecret),
    secrets: new Secrets(store, keptSecret(paths.secretsKey)),
    ...people,
    isolation: new Isolation(paths.machineName, config.RUNNER_CELL_MAX_MB),
    /** The addresses that the host may connect to for a tenant. */
    reachable: new PublicAddresses(config.RUNNER_EGRESS_ALLOW),
    wakeTimeoutMs: config.RUNNER_WAKE_TIMEOUT_S * 1000,
    /** Returns the URL of an app, by its slug; null until the ports are known. */
    urlOf: (slug: string) => known.addresses?.app.replace('{slug}', slug) ?? null,
  };
}

/**
 * Locks the data directory and opens the host's database. Ends orphaned processes, removes orphaned files, and finishes the
 * moves of a killed host.
 */
function openDataDirectory(config: Config, paths: Layout) {
  const release = claim(paths);
  finishMoves(paths.restoring);
  // Before the writes below: on an almost full disk, `DiskWatch` frees the disk reserve.
  const disk = new DiskWatch({
    directory: paths.root,
    diskReserve: paths.diskReserve,
    floorMb: config.RUNNER_DISK_FLOOR_MB,
  });
  const token = config.RUNNER_TOKEN || keptSecret(paths.token);
  // Makes the API key of the first account, and the key of sessions, at the first start.
  keptSecret(paths.apiKey, 'cellar_');
  keptSecret(paths.signInKey);
  writeHooks(paths.hooks);
  writeAskingHooks(paths.askingHooks);
  const store = openHostStore(paths.database);
  finishMovedData(paths, (appId) => store.apps.place(appId));
  forgetProcessesOfCopy(paths, store.buildUsers);
  endOrphanedProcesses(paths.builds, allUids(store.buildUsers));
  rmSync(paths.builds, { recursive: true, force: true });
  mkdirSync(paths.builds, { mode: 0o700 });
  trashTrials(paths);
  return { release, disk, token, store };
}
