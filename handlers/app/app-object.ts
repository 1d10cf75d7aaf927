// The Durable Object of one app: runs its transitions one at a time, and serves its live streams.
import { DurableObject } from 'cloudflare:workers';
import type { AppRow } from '../../sqlite/control/apps/apps.ts';
import { type Change, changeOf } from '../../sqlite/control/apps/changes.ts';
import { trashApp, undeleteApp } from '../../sqlite/control/apps/deleted.ts';
import {
  type Buried,
  buryApp,
  desire,
  type Insertion,
  insertApp,
  isUniqueViolation,
  observeApp,
  raiseTombstone,
  readWanted,
  removeApp,
  type Transition,
  transition,
  type Wanted,
} from '../../sqlite/control/apps/transitions.ts';
import { type EventRow, insertEvent } from '../../sqlite/control/events/events.ts';
import { changeHome, isRemoved, restoreHome } from '../../sqlite/control/hosts.ts';
import { liftRevision } from '../../sqlite/control/meta.ts';
import type { Bindings } from '../bindings.ts';
import { errorCodes } from '../contract/errors.ts';
import type { Applied } from '../contract/host/host-routes.ts';
import { EVENTS_LIMIT } from '../contract/sizes.ts';
import { HostClient, StaleGeneration } from '../host/host-client.ts';
import { retentionMs } from '../host/prune.ts';
import { afterChange, Problem } from '../problem.ts';
import { Lock } from './lock.ts';
import { type Outcome, outcomeOf, refusal } from './outcome.ts';
import { type StreamFact, Streams, type Subscription } from './streams.ts';

/** Minimum time between two prunings of old stream events, in ms. */
const PRUNE_PAUSE_MS = 1_000;
/**
 * Minimum time between two moves of an app to other hosts, in ms. It lets the app answer the requests that waited for the
 * first move.
 */
const STAY_MS = 3_000;
/**
 * Maximum retries when the host has a newer generation of the app. Equal to the number of transitions that can wait for the
 * lock, because each of them raises the generation.
 */
const OVERTAKE_RETRIES = 16;

type SqlValue = string | number | null;

/** An app after a change. `changed`: the row that the change returned; null when there was nothing to change. */
export interface Changed {
  row: AppRow;
  changed: Record<string, SqlValue> | null;
}

/**
 * Runs one app's transitions: the changes of its wanted state. Each transition raises the app's generation, a version number
 * in D1, under the lock. Then it sends the host the whole wanted state, or the deletion. Only `create`, `undelete` and
 * `rehome` hold the lock while the host works. Other transitions release it before, because the host refuses an older
 * generation.
 */
export class AppObject extends DurableObject<Bindings> {
  readonly #lock = new Lock();
  /** Serialises moves. Separate from `#lock`, so that a move that waits for `STAY_MS` delays no other transition. */
  readonly #moves = new Lock();
  /** When this object last moved the app, in ms since 1970; 0 when it has not moved the app since it was loaded. */
  #movedAt = 0;
  readonly #host = new HostClient(this.env);
  #opened: Streams | null = null;
  /** Whether an alarm is set to prune old stream events. */
  #hasAlarm = false;

  /** Adds the app. When the host fails or does not answer, removes the app again. */
  create(app: Parameters<typeof insertApp>[1]): Promise<Outcome<AppRow>> {
    const add = async () => {
      const inserted = await insertApp(this.env.DB, app);
      if (typeof inserted === 'string') throw notInserted(inserted, app);
      try {
        return await this.#push(inserted);
      } catch (error) {
        await removeApp(this.env.DB, app.id);
        // The host may have accepted the app after the timeout. If this deletion fails too, reconcile repeats it.
        await this.#end(app.id, { generation: inserted.wanted.generation, home: app.home }).catch(() => {});
        throw error;
      }
    };
    return outcomeOf(() => this.#lock.run(add));
  }

  /**
   * Changes the wanted state of the app. When the host cannot be reached, the change stays and reconcile applies it.
   * @returns the app, and the row that the change returned: null when there was nothing to change
   */
  change(id: string, change: Change, at: string): Promise<Outcome<Changed>> {
    return outcomeOf(async () => {
      const statement = changeOf(this.env.DB, id, change, at);
      const written = await this.#lock.run(() => transition(this.env.DB, id, statement)).catch(taken);
      if (written === null) throw new Problem('app_not_found');
      const { row, changed } = written;
      return changed === null ? { row, changed } : { row: await this.#pushChange(written), changed };
    });
  }

  /**
   * Starts a stopped app, or wakes a sleeping one. Resolves when the app serves, or when `last_error` says why it did not
   * start. Refused with `app_unavailable` when a sleeping app does not start. When the host cannot be reached, a changed
   * desired state stays and reconcile applies it.
   */
  start(id: string): Promise<Outcome<AppRow>> {
    return outcomeOf(async () => {
      const written = await this.#desire(id, 'running');
      if (written.changed !== null) return this.#pushChange(written);
      const { app, as_of } = await this.#host.call('POST /apps/:id/start', { id });
      if (app.asleep_since !== null && app.process_state === 'crashed')
        throw new Problem(
          'app_unavailable',
          `The app did not start: ${app.last_error ?? 'the host gave no reason'}`,
        );
      return (await observeApp(this.env.DB, app, as_of)) ?? written.row;
    });
  }

  /**
   * Stops the app, whether it runs or sleeps. When the host cannot be reached, the change stays and reconcile applies it.
   */
  stop(id: string): Promise<Outcome<AppRow>> {
    return outcomeOf(async () => this.#pushChange(await this.#desire(id, 'stopped')));
  }

  /** Puts the app to sleep. Resolves when its process has ended. */
  sleep(id: string): Promise<Outcome<AppRow>> {
    return outcomeOf(async () => {
      const { app, as_of } = await this.#host.call('POST /apps/:id/sleep', { id });
      const row = await observeApp(this.env.DB, app, as_of);
      if (row === null) throw new Problem('app_not_found');
      return row;
    });
  }

  /** Writes the desired state. @throws {Problem} `app_not_found` */
  async #desire(id: string, state: 'running' | 'stopped'): Promise<Transition> {
    const written = await this.#lock.run(() => transition(this.env.DB, id, desire(this.env.DB, id, state)));
    if (written === null) throw new Problem('app_not_found');
    return written;
  }

  /** Sends a transition to the host. @throws {Problem} whose `changed` says whether D1 was changed */
  #pushChange(written: Transition): Promise<AppRow> {
    return this.#push(written).catch((error: unknown) => {
      throw written.changed === null ? error : afterChange(error);
    });
  }

  /** Deletes the app. Its slug is free once the host has confirmed. If the host does not confirm, reconcile asks again. */
  delete(id: string, at: string): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      const buried = await this.#lock.run(() => buryApp(this.env.DB, id, at));
      if (buried === null) throw new Problem('app_not_found');
      await this.#bury(id, buried).catch((error: unknown) => {
        console.error(
          `app ${id} is deleted, but its host has not confirmed that yet and is asked again: ${(error as Error).message}`,
        );
      });
      return null;
    });
  }

  /**
   * Undeletes the app. When the host fails or does not answer, deletes the app again.
   * @param undeletion.deleted the time of its deletion, ISO 8601, and the slug that it had then
   */
  undelete(
    id: string,
    { deleted, ...undeletion }: Parameters<typeof undeleteApp>[2] & { deleted: { at: string; slug: string } },
  ): Promise<Outcome<AppRow>> {
    const undelete = async () => {
      const written = await undeleteApp(this.env.DB, id, undeletion).catch(taken);
      if (written === null) throw new Problem('app_not_found');
      if (written === 'quota_exceeded') throw tooManyApps();
      try {
        return await this.#push(written);
      } catch (error) {
        const buried = await buryApp(this.env.DB, id, deleted.at, deleted.slug);
        // The host may have undeleted the app after the timeout. If this deletion fails too, reconcile repeats it.
        if (buried !== null) await this.#bury(id, buried).catch(() => {});
        throw error;
      }
    };
    return outcomeOf(() => this.#lock.run(undelete));
  }

  /**
   * Moves an app whose data is in the bucket to another host, which becomes the app's home. Other transitions wait during the
   * move. Waits first until `STAY_MS` after the previous move, unless the old home is lost. If a step fails after D1 has the
   * new home, reconcile repeats the step.
   * @param move.isLost whether the old home is lost. Then the new home does not prepare, and the old home does not hand the
   *   app over.
   * @returns the app, or a refusal: `app_immovable` for data on a machine, `transition_conflict` when the home is not
   *   `from`, or the error with which a host refused to prepare or to hand the app over
   */
  rehome(id: string, move: { from: string | null; to: string; isLost: boolean }): Promise<Outcome<AppRow>> {
    return outcomeOf(() =>
      this.#moves.run(async () => {
        const leftMs = this.#movedAt + STAY_MS - Date.now();
        if (!move.isLost && move.from !== move.to && leftMs > 0)
          await scheduler.wait(Math.min(leftMs, STAY_MS));
        return this.#lock.run(() => this.#rehome(id, move));
      }),
    );
  }

  async #rehome(
    id: string,
    { from, to, isLost }: { from: string | null; to: string; isLost: boolean },
  ): Promise<AppRow> {
    const before = await readWanted(this.env.DB, id);
    if (before === null) throw new Problem('app_not_found');
    if (before.row.home === to) return before.row;
    if (before.row.storage === 'local') throw onMachine(before.row);
    if (!isLost) await this.#host.call('POST /apps/:id/prepare', { id }, { query: { home: to } });
    const written = await transition(this.env.DB, id, changeHome(this.env.DB, id, { from, to }));
    if (written === null) throw new Problem('app_not_found');
    if (written.changed === null)
      throw new Problem(
        'transition_conflict',
        'The app moved to another host during this request; try again.',
      );
    if (!isLost && from !== null) await this.#handOver(written, from, to);
    try {
      return await this.#pushChange(written);
    } finally {
      this.#movedAt = Date.now();
    }
  }

  /**
   * Has the old home hand the app over. If the old home fails or does not answer, the move continues: the data is safe,
   * because workerd lets only one process use the data.
   * @throws {Problem} when the old home refuses, for example while the app's data is moved to the disk of that host. The
   *   old home then stays the home
   */
  async #handOver({ wanted: { id, generation } }: Wanted, from: string, to: string): Promise<void> {
    try {
      const moved = { query: { home: from }, body: { to, generation } };
      await this.#host.call('POST /apps/:id/hand-over', { id }, moved);
    } catch (error) {
      console.error(
        `app ${id}: host ${from} did not hand the app over to host ${to}: ${(error as Error).message}`,
      );
      if (!(error instanceof Problem) || error.status >= 500) return;
      await transition(this.env.DB, id, restoreHome(this.env.DB, id, { from, to }));
      throw error;
    }
  }

  /** Sends the host the app's wanted state in D1, even if the host has the same or a newer state. Called by reconcile. */
  converge(id: string): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      const wanted = await readWanted(this.env.DB, id);
      if (wanted !== null) await this.#push(wanted);
      return null;
    });
  }

  /** Asks the host to delete an app that is a tombstone in D1. Called by reconcile. */
  confirmDeletion(id: string, buried: Buried): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      await this.#bury(id, buried);
      return null;
    });
  }

  async logEvent(row: EventRow, shown: unknown): Promise<Outcome<null>> {
    if (!(await insertEvent(this.env.DB, row, EVENTS_LIMIT))) {
      return { ok: false, code: 'app_not_found', detail: errorCodes.app_not_found.meaning };
    }
    this.#streams.publish('events', shown);
    await this.#endLater();
    return { ok: true, value: null };
  }

  /** Sends changes of deploys and log lines, which the host reported, to the listeners. Skips those that were sent before. */
  async publishDeploys(outbox: string, facts: StreamFact[]): Promise<void> {
    this.#streams.publishFacts(outbox, facts);
    await this.#endLater();
  }

  /** Prunes stream events that are older than the retention time. */
  override async alarm(): Promise<void> {
    const kept = retentionMs(this.env);
    const oldest = this.#streams.prune(Date.now() - kept);
    this.#hasAlarm = oldest !== null;
    if (oldest !== null)
      await this.ctx.storage.setAlarm(Math.max(oldest + kept, Date.now() + PRUNE_PAUSE_MS));
  }

  subscribe(subscription: Subscription): Outcome<ReadableStream<Uint8Array>> {
    try {
      return { ok: true, value: this.#streams.open(subscription) };
    } catch (error) {
      return refusal(error);
    }
  }

  /** Sends a wanted state to the host, and writes the state that the host reports back to D1. */
  async #push({ row, wanted }: Wanted): Promise<AppRow> {
    const { app, as_of } = await this.#apply(wanted, OVERTAKE_RETRIES);
    return (await observeApp(this.env.DB, app, as_of)) ?? row;
  }

  async #apply(wanted: Wanted['wanted'], overtakes: number): Promise<Applied> {
    try {
      return await this.#host.call('PUT /apps/:id', { id: wanted.id }, { body: wanted });
    } catch (error) {
      if (!(error instanceof StaleGeneration)) throw error;
      if (overtakes === 0) return conflict(error);
      return this.#apply(await this.#overtake(wanted.id, wanted.home), overtakes - 1);
    }
  }

  /** Raises the app's generation in D1 above all generations of the host. @returns the app's current wanted state */
  async #overtake(id: string, home: string | undefined): Promise<Wanted['wanted']> {
    await this.#liftAbove(home);
    const written = await transition(this.env.DB, id);
    if (written === null) throw new Problem('app_not_found');
    return written.wanted;
  }

  /**
   * Raises D1's counter of generations to the highest generation that a host has.
   * @param home the host's id; undefined in a Cellar of one host
   */
  async #liftAbove(home: string | undefined): Promise<void> {
    const { highest_generation } = await this.#host.call('GET /apps', {}, { query: { home } });
    await liftRevision(this.env.DB, highest_generation);
  }

  /** Has the host end the app, and move its data to the trash. */
  #end(id: string, { generation, home }: Buried): Promise<null> {
    return this.#host.call('DELETE /apps/:id', { id }, { query: { generation, home: home ?? undefined } });
  }

  async #bury(id: string, buried: Buried): Promise<void> {
    // A removed host cannot confirm the deletion. If that host comes back, its reconcile deletes apps that D1 does not have.
    if (buried.home === null || !(await isRemoved(this.env.DB, buried.home)))
      await this.#endNewest(id, buried);
    await trashApp(this.env.DB, id, new Date().toISOString());
    this.#opened?.close();
    this.#opened = null;
    this.#hasAlarm = false;
    await this.ctx.storage.deleteAlarm();
    await this.ctx.storage.deleteAll();
  }

  /** Ends the app like `#end`. When the host knows a newer state of the app, raises the generation and tries again. */
  async #endNewest(id: string, buried: Buried): Promise<void> {
    try {
      await this.#end(id, buried);
    } catch (error) {
      if (!(error instanceof StaleGeneration)) throw error;
      await this.#liftAbove(buried.home ?? undefined);
      const raised = await raiseTombstone(this.env.DB, id);
      if (raised !== null) await this.#end(id, { ...buried, generation: raised }).catch(conflict);
    }
  }

  async #endLater(): Promise<void> {
    if (this.#hasAlarm) return;
    this.#hasAlarm = true;
    const { storage } = this.ctx;
    if ((await storage.getAlarm()) === null) await storage.setAlarm(Date.now() + retentionMs(this.env));
  }

  /** Created on first use, so that a request for an unknown app creates no database. */
  get #streams(): Streams {
    this.#opened ??= new Streams(this.ctx.storage.sql);
    return this.#opened;
  }
}

/** Converts an error of a write. @throws {Problem} `slug_taken` when another app has the slug; other errors unchanged */
function taken(error: unknown): never {
  if (isUniqueViolation(error, 'apps.slug')) throw new Problem('slug_taken');
  throw error;
}

function conflict(error: unknown): never {
  if (error instanceof StaleGeneration) throw new Problem('transition_conflict');
  throw error;
}

function notInserted(
  refusal: Extract<Insertion, string>,
  app: { slug: string; owner: string | null; quota: number },
): Problem {
  if (refusal === 'slug_taken') return new Problem(refusal, `The name ${app.slug} is taken.`);
  if (refusal === 'guest')
    return new Problem(
      'quota_exceeded',
      'This is a guest account, which cannot own apps. An admin of this machine can send an invite that allows it.',
    );
  if (refusal === 'quota_exceeded') return tooManyApps();
  return new Problem(
    refusal,
    app.owner === null
      ? 'The first account does not exist yet: Cellar is still starting. Try again in a moment.'
      : `There is no account ${app.owner}.`,
  );
}

function tooManyApps(): Problem {
  return new Problem(
    'quota_exceeded',
    'This account owns as many apps as its quota allows. Delete one, or have an admin of this machine raise the quota (People in the control UI).',
  );
}

function onMachine({ slug, home_name }: AppRow): Problem {
  const where = home_name === null ? 'its machine' : `the machine of host ${home_name}`;
  return new Problem(
    'app_immovable',
    `The app ${slug} keeps its data on ${where}. Move the data into the bucket first: \`cellar move ${slug} --to bucket\`.`,
  );
}
