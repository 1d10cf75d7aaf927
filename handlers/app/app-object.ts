// The Durable Object of one app: runs its transitions one at a time, and serves its live streams.
import { DurableObject } from 'cloudflare:workers';
import type { AppRow } from '../../sqlite/control/apps/apps.ts';
import { type Change, changeOf } from '../../sqlite/control/apps/changes.ts';
import {
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
import { liftRevision } from '../../sqlite/control/meta.ts';
import type { Bindings } from '../bindings.ts';
import { type ErrorCode, errorCodes } from '../contract/errors.ts';
import type { Applied } from '../contract/host/host-routes.ts';
import { EVENTS_LIMIT } from '../contract/sizes.ts';
import { HostClient, StaleGeneration } from '../host/host-client.ts';
import { retentionMs } from '../host/prune.ts';
import { afterChange, Problem } from '../problem.ts';
import { Lock } from './lock.ts';
import { type StreamFact, Streams, type Subscription } from './streams.ts';

/** Errors lose their fields when they leave a Durable Object, so refusals are returned as values. */
export type Outcome<Value> =
  | { ok: true; value: Value }
  | { ok: false; code: ErrorCode; detail: string; changed?: boolean };

/** The least time between two prunings of old stream events. */
const PRUNE_PAUSE_MS = 1_000;
/** Retries of a wanted state that a later one overtakes: as many as tasks that may wait for the lock. */
const OVERTAKE_RETRIES = 16;

type SqlValue = string | number | null;

/** A changed app. */
export interface Changed {
  row: AppRow;
  changed: Record<string, SqlValue> | null;
}

/**
 * Runs one app's transitions. Each writes D1 under the lock with a raised generation, then sends the host the whole wanted
 * state. The lock is not held while the host works: the host refuses an older generation.
 */
export class AppObject extends DurableObject<Bindings> {
  readonly #lock = new Lock();
  readonly #host = new HostClient(this.env);
  #opened: Streams | null = null;
  /** Whether an alarm is set to prune old stream events. */
  #hasAlarm = false;

  /** Adds the app. When the host cannot be reached, the app is removed again. */
  create(app: Parameters<typeof insertApp>[1]): Promise<Outcome<AppRow>> {
    const add = async () => {
      const inserted = await insertApp(this.env.DB, app);
      if (typeof inserted === 'string') throw notInserted(inserted, app);
      try {
        return await this.#push(inserted);
      } catch (error) {
        await removeApp(this.env.DB, app.id);
        // The host may have accepted the app after the timeout. If this fails too, reconcile deletes it.
        await this.#end(app.id, inserted.wanted.generation).catch(() => {});
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
   * Starts a stopped app, or wakes a sleeping one. Resolves when it serves, or a failed start is in `last_error`. When the
   * host cannot be reached, a changed desired state stays and reconcile applies it.
   */
  start(id: string): Promise<Outcome<AppRow>> {
    return outcomeOf(async () => {
      const written = await this.#desire(id, 'running');
      if (written.changed !== null) return this.#pushChange(written);
      const { app, as_of } = await this.#host.call('POST /apps/:id/start', { id });
      if (app.asleep_since !== null && app.process_state === 'crashed')
        throw new Problem(
          'app_unavailable',
          `The app did not start: ${app.last_error ?? 'the host says no more'}`,
        );
      return (await observeApp(this.env.DB, app, as_of)) ?? written.row;
    });
  }

  /** Stops the app, whether it runs or sleeps. When the host cannot be reached, reconcile applies it. */
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

  /** Sends a transition to the host. @throws {Problem} that says whether something was changed */
  #pushChange(written: Transition): Promise<AppRow> {
    return this.#push(written).catch((error: unknown) => {
      throw written.changed === null ? error : afterChange(error);
    });
  }

  /** Deletes the app. Its slug is free once the host has confirmed; if the host does not answer, reconcile asks again. */
  delete(id: string, at: string): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      const generation = await this.#lock.run(() => buryApp(this.env.DB, id, at));
      if (generation === null) throw new Problem('app_not_found');
      await this.#bury(id, generation).catch((error: unknown) => {
        console.error(`app ${id} is deleted, and the host has not confirmed: ${(error as Error).message}`);
      });
      return null;
    });
  }

  /** Sends the host the app's state in D1, whatever the host has. For reconcile. */
  converge(id: string): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      const wanted = await readWanted(this.env.DB, id);
      if (wanted !== null) await this.#push(wanted);
      return null;
    });
  }

  /** Asks the host to delete an app that is a tombstone in D1. For reconcile. */
  confirmDeletion(id: string, generation: number): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      await this.#bury(id, generation);
      return null;
    });
  }

  /** Stores a product event and sends it to the listeners. */
  async logEvent(row: EventRow, shown: unknown): Promise<Outcome<null>> {
    if (!(await insertEvent(this.env.DB, row, EVENTS_LIMIT))) {
      return { ok: false, code: 'app_not_found', detail: errorCodes.app_not_found.meaning };
    }
    this.#streams.publish('events', shown);
    await this.#endLater();
    return { ok: true, value: null };
  }

  /** Sends deploy facts to the listeners. Facts that were sent before are skipped. */
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

  /** Follows a stream of the app. */
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
      return this.#apply(await this.#overtake(wanted.id), overtakes - 1);
    }
  }

  /** The host has a higher generation than D1: raises D1's above it, and reads the current state. */
  async #overtake(id: string): Promise<Wanted['wanted']> {
    const { highest_generation } = await this.#host.call('GET /apps', {});
    await liftRevision(this.env.DB, highest_generation);
    const written = await transition(this.env.DB, id);
    if (written === null) throw new Problem('app_not_found');
    return written.wanted;
  }

  /** Has the host end the app, and move its data to the trash. */
  #end(id: string, generation: number): Promise<null> {
    return this.#host.call('DELETE /apps/:id', { id }, { query: { generation } });
  }

  async #bury(id: string, generation: number): Promise<void> {
    try {
      await this.#end(id, generation);
    } catch (error) {
      if (!(error instanceof StaleGeneration)) throw error;
      const { highest_generation } = await this.#host.call('GET /apps', {});
      await liftRevision(this.env.DB, highest_generation);
      const raised = await raiseTombstone(this.env.DB, id);
      if (raised !== null) await this.#end(id, raised).catch(conflict);
    }
    await removeApp(this.env.DB, id);
    this.#opened?.close();
    this.#opened = null;
    this.#hasAlarm = false;
    await this.ctx.storage.deleteAlarm();
    await this.ctx.storage.deleteAll();
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

/** Returns the outcome of `run`: a `Problem` becomes a value. */
async function outcomeOf<Value>(run: () => Promise<Value>): Promise<Outcome<Value>> {
  try {
    return { ok: true, value: await run() };
  } catch (error) {
    return refusal(error);
  }
}

/** @throws {Problem} `slug_taken` when another app has the slug */
function taken(error: unknown): never {
  if (isUniqueViolation(error, 'apps.slug')) throw new Problem('slug_taken');
  throw error;
}

/** @throws every error that is not a `Problem` */
function refusal(error: unknown): Extract<Outcome<never>, { ok: false }> {
  if (error instanceof Problem)
    return { ok: false, code: error.code, detail: error.message, changed: error.changed };
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
  if (refusal === 'quota_exceeded')
    return new Problem(
      refusal,
      `This account may own ${app.quota} apps (RUNNER_MAX_APPS_PER_USER), and has that many; delete one first.`,
    );
  return new Problem(
    refusal,
    app.owner === null ? 'There is no account yet.' : `There is no account ${app.owner}.`,
  );
}
