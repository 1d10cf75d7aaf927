// Apps that come from another host, or back from the bucket.
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import type { AppRecord } from '../../../sqlite/host/app-records.ts';
import type { Bucket } from '../../bucket/bucket.ts';
import { LeftBucket, NewerRecord, OtherHome } from '../../bucket/records/app-records.ts';
import { learnDueTimes } from '../../bucket/records/due-times.ts';
import { ifThere } from '../../bucket/store.ts';
import { AT_WORK_MS } from '../../fleets/due/due.ts';
import { log, reason } from '../../log.ts';
import { SerialQueues } from '../../queues/serial-queue.ts';
import { Refusal } from '../../refusal.ts';
import type { App } from '../app.ts';
import type { AppHosts } from '../known/apps-options.ts';
import { type OpenApps, StaleGeneration, stale } from '../known/open-apps.ts';
import type { Departures } from './departures.ts';

/** Takes over apps in the bucket whose new home (the host that runs an app) is this host. */
export class Arrivals {
  readonly #apps: OpenApps;
  readonly #departures: Departures;
  /** Runs the arrivals of one app one after another. */
  readonly #turns = new SerialQueues();

  constructor(apps: OpenApps, departures: Departures) {
    this.#apps = apps;
    this.#departures = departures;
  }

  /**
   * Takes an app from the bucket, if its home has changed from another host to this one, or if a deleted app is to come
   * back.
   * @throws {Refusal} when another host is its home, its data is gone, or the bucket does not answer
   * @throws {StaleGeneration} when a newer state is known
   */
  async takeIfElsewhere(wanted: WantedApp): Promise<void> {
    const { hosts = null, bucket } = this.#apps.options;
    if (hosts !== null && wanted.home === undefined) return;
    if (hosts !== null && wanted.home !== hosts.self)
      throw new Refusal(409, 'transition_conflict', `the home of app ${wanted.id} is host ${wanted.home}`);
    if (bucket === null || wanted.storage !== 'bucket') return;
    const known = this.#apps.app(wanted.id);
    if (known !== undefined && wanted.generation <= known.wanted.generation) return;
    // A Cellar of one host takes back only apps that were deleted.
    if (hosts === null && (known !== undefined || wanted.undeleted === undefined)) return;
    await this.#turns
      .run(wanted.id, () => this.#take(wanted, hosts, bucket))
      .catch((error: unknown) => {
        if (error instanceof Refusal || error instanceof StaleGeneration) throw error;
        if (error instanceof LeftBucket && wanted.undeleted !== undefined) throw gone();
        throw new Refusal(503, 'host_unavailable', `the app cannot be taken over: ${reason(error)}`);
      });
    this.#apps.requireNewest(wanted);
  }

  /**
   * Loads the live release of an app that another host runs, for a start on this host. Does nothing for an app of this host.
   * @throws {Refusal} when the bucket lacks the app's record or release; {Error} when the bucket does not answer
   */
  async prepare(id: string): Promise<void> {
    if (this.#apps.app(id) !== undefined) return;
    const record = await this.#apps.bucketOf(id).records.read(id);
    if (record === null)
      throw new Refusal(409, 'app_immovable', 'The app cannot move: the bucket has no record of it');
    if (record.liveDeployId === null) return;
    const { releases } = this.#apps.placeInBucket(id, () => false).code;
    if ((await ifThere(releases.load(record.liveDeployId))) === null)
      throw new Refusal(
        409,
        'app_immovable',
        'The app cannot move yet: the bucket does not have its release',
      );
  }

  async #take(wanted: WantedApp, hosts: AppHosts | null, bucket: Bucket): Promise<void> {
    const known = this.#apps.app(wanted.id);
    if (known !== undefined && hosts !== null) {
      if (!(await bucket.records.isElsewhere(wanted.id))) return;
      // Another host has changed the app since, so this host forgets the app, and takes the newer record below.
      await this.#departures.forget(known, hosts);
    }
    // Waits until the bucket has the record of the deleted app, because the next step reads it there.
    if (this.#apps.options.store.apps.isDeleted(wanted.id))
      await bucket.records.stored(wanted.id).catch((error: unknown) => {
        if (!(error instanceof OtherHome)) throw error;
      });
    const records = await this.#takeRecords(bucket, wanted);
    if (records === null) return;
    this.#apps.requireNewest(wanted);
    this.#apps.options.store.transaction(() => this.#apps.options.store.records.takeOne(records));
    for (const record of records) this.#arrive(record, wanted);
    log('info', 'an app was taken from the bucket', { app: wanted.slug });
  }

  /** @throws {StaleGeneration} when a newer state is in the bucket; {Error} as `AppRecords.take` does */
  #takeRecords({ records }: Bucket, wanted: WantedApp): Promise<AppRecord[] | null> {
    return records.take(wanted).catch((error: unknown) => {
      if (!(error instanceof NewerRecord)) throw error;
      this.#apps.newestInBucket = Math.max(this.#apps.newestInBucket, error.generation);
      throw stale(wanted);
    });
  }

  /**
   * Takes the records of a deleted app, whose home was lost, and of its previews: otherwise nobody would remove their
   * folders.
   * @returns the records, the app's first; empty when the bucket has none
   */
  async takeLeft(id: string, generation: number): Promise<AppRecord[]> {
    const { hosts, bucket } = this.#apps.options;
    if (hosts == null || bucket === null) return [];
    const record = await bucket.records.read(id);
    if (record === null) return [];
    const records = await this.#takeRecords(bucket, { ...record.wanted, generation, home: hosts.self });
    return records ?? [];
  }

  #arrive(record: AppRecord, parent: WantedApp): void {
    const { liveDeployId } = record;
    const app = this.#apps.restore(record, parent, { dueAt: null });
    if (liveDeployId === null || app.fleet.state !== 'idle') return void this.#learnDue(app);
    if (record.preview === null && !Number.isFinite(this.#apps.options.idleMs)) void app.startInTurn();
    else void this.#learnDue(app);
  }

  /** Finds out when an app that has arrived has due work. Never rejects. */
  #learnDue({ cluster, fleet }: App): Promise<void> {
    const next = async () => {
      const at = (await cluster?.nextAlarm()) ?? null;
      // The move cut running steps of Workflows. Their instances have alarms within `AT_WORK_MS`, so the app starts now.
      return at !== null && at <= Date.now() + AT_WORK_MS ? Date.now() : at;
    };
    const queries = { areAlarmsUnread: () => true, alarmsAreRead: () => {} };
    const signal = AbortSignal.any([this.#apps.closing.signal, fleet.closing]);
    return learnDueTimes(queries, [{ learn: () => fleet.learnDue(next) }], signal);
  }
}

export function gone(): Refusal {
  return new Refusal(404, 'app_not_found', 'The data of the app is no longer in the trash');
}
