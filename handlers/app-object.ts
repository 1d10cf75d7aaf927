// The Durable Object of one app: its transitions, one at a time.
import { DurableObject } from 'cloudflare:workers';
import type { AppRow } from '../sqlite/control/apps.ts';
import { liftRevision } from '../sqlite/control/meta.ts';
import {
  buryApp,
  insertApp,
  observeApp,
  raiseTombstone,
  readWanted,
  removeApp,
  setDesiredState,
  transition,
  type Wanted,
} from '../sqlite/control/transitions.ts';
import type { ErrorCode } from './contract/errors.ts';
import type { Env } from './env.ts';
import { HostClient, StaleGeneration } from './host.ts';
import { Lock } from './lock.ts';
import { Problem } from './problem.ts';

/** Exceptions lose their fields on the way out of an object, so refusals are returned. */
export type Outcome<Value> = { ok: true; value: Value } | { ok: false; code: ErrorCode; detail: string };

/**
 * One app's transitions: each writes D1, with a raised generation, then sends the host the whole wanted state. The
 * lock is a courtesy; what keeps an older state from winning is the host's fence.
 */
export class AppObject extends DurableObject<Env> {
  readonly #lock = new Lock();
  readonly #host = new HostClient(this.env);

  /** Adds the app. Nothing of it is left when the host cannot be reached. */
  create(app: Parameters<typeof insertApp>[1]): Promise<Outcome<AppRow>> {
    return this.#transition(async () => {
      const inserted = await insertApp(this.env.DB, app);
      if (typeof inserted === 'string') throw new Problem(inserted, insertionDetail(inserted, app));
      try {
        return await this.#push(inserted);
      } catch (error) {
        await removeApp(this.env.DB, app.id);
        // The host may have taken it and been too slow to say so; if this fails too, reconcile ends it.
        await this.#host.delete(app.id, inserted.wanted.generation).catch(() => {});
        throw error;
      }
    });
  }

  /** Starts (waking it) or stops the app. */
  setDesiredState(id: string, state: 'running' | 'stopped', at: string): Promise<Outcome<AppRow>> {
    return this.#transition(async () => {
      const written = await transition(this.env.DB, id, [setDesiredState(this.env.DB, id, state, at)]);
      if (written === null) throw new Problem('app_not_found');
      return this.#push(written);
    });
  }

  /** Deletes the app. Its slug is free when the host has confirmed; if it does not now, reconcile asks again. */
  delete(id: string, at: string): Promise<Outcome<null>> {
    return this.#transition(async () => {
      const generation = await buryApp(this.env.DB, id, at);
      if (generation === null) throw new Problem('app_not_found');
      await this.#bury(id, generation).catch((error: unknown) => {
        console.error(`app ${id} is deleted, and the host has not confirmed: ${(error as Error).message}`);
      });
      return null;
    });
  }

  /** Makes the host agree with D1, whatever either has. For reconcile. */
  converge(id: string): Promise<Outcome<null>> {
    return this.#transition(async () => {
      const wanted = await readWanted(this.env.DB, id);
      if (wanted !== null) await this.#push(wanted);
      return null;
    });
  }

  /** Has the host end an app that is a tombstone in D1. For reconcile. */
  confirmDeletion(id: string, generation: number): Promise<Outcome<null>> {
    return this.#transition(async () => {
      await this.#bury(id, generation);
      return null;
    });
  }

  async #transition<Value>(run: () => Promise<Value>): Promise<Outcome<Value>> {
    try {
      return { ok: true, value: await this.#lock.run(run) };
    } catch (error) {
      if (error instanceof Problem) return { ok: false, code: error.code, detail: error.message };
      throw error;
    }
  }

  /** Sends a wanted state, and writes what the host made of it. */
  async #push({ row, wanted }: Wanted): Promise<AppRow> {
    let sent = wanted;
    const observed = await this.#host.apply(wanted).catch(async (error: unknown) => {
      if (!(error instanceof StaleGeneration)) throw error;
      sent = await this.#overtake(wanted.id);
      return this.#host.apply(sent).catch(conflict);
    });
    return (await observeApp(this.env.DB, observed)) ?? row;
  }

  /** The host has seen more than D1 has: raises the generation above that, and reads the state as it is now. */
  async #overtake(id: string): Promise<Wanted['wanted']> {
    const { highest_generation } = await this.#host.inventory();
    await liftRevision(this.env.DB, highest_generation);
    const written = await transition(this.env.DB, id, []);
    if (written === null) throw new Problem('app_not_found');
    return written.wanted;
  }

  async #bury(id: string, generation: number): Promise<void> {
    try {
      await this.#host.delete(id, generation);
    } catch (error) {
      if (!(error instanceof StaleGeneration)) throw error;
      const { highest_generation } = await this.#host.inventory();
      await liftRevision(this.env.DB, highest_generation);
      const raised = await raiseTombstone(this.env.DB, id);
      if (raised !== null) await this.#host.delete(id, raised).catch(conflict);
    }
    await removeApp(this.env.DB, id);
  }
}

function conflict(error: unknown): never {
  if (error instanceof StaleGeneration) throw new Problem('transition_conflict');
  throw error;
}

function insertionDetail(
  refusal: ErrorCode,
  app: { slug: string; owner: string | null; quota: number },
): string {
  if (refusal === 'slug_taken') return `The slug ${app.slug} is taken.`;
  if (refusal === 'quota_exceeded') return `This account may own ${app.quota} apps, and it does.`;
  return app.owner === null ? 'There is no account yet.' : `There is no account ${app.owner}.`;
}
