// Carries out the decisions of the life table: writes D1 under a lock, and waits for the host outside it.
import type { AppRow } from '../../sqlite/control/apps/apps.ts';
import { markApp, readAppLife } from '../../sqlite/control/apps/life.ts';
import { readWanted, transition, type Wanted } from '../../sqlite/control/apps/transitions.ts';
import type { Mark } from '../contract/apps/life.ts';
import { afterChange, Problem } from '../problem.ts';
import { decide, type Effect, type LifeEvent, type State } from './life-table.ts';
import type { Lock } from './lock.ts';

/** A transition that the host is carrying out. */
interface Underway {
  state: 'parking' | 'waking';
  /** The app as it was before. */
  before: AppRow;
  done: Promise<AppRow>;
}

/** What `Life` needs from its app's object. */
export interface LifeOptions {
  db: D1Database;
  lock: Lock;
  /** Sends the host a wanted state; resolves with the app in the state that the host reports. */
  send: (wanted: Wanted) => Promise<AppRow>;
}

/** One app's transitions between running, asleep and stopped. */
export class Life {
  readonly #options: LifeOptions;
  #underway: Underway | null = null;

  constructor(options: LifeOptions) {
    this.#options = options;
  }

  /**
   * Handles an event, and resolves with the app when the host has carried out the decision.
   * @param at time of the event, ISO 8601
   * @param isQuiet for a `sweep`: whether the app is unused
   * @throws {Problem} `app_not_found`; `transition_conflict` when the state refuses the event; `app_unavailable` when a wake
   * fails; `host_unavailable`, and then reconcile applies what was written
   */
  async handle(
    id: string,
    event: LifeEvent,
    at: string,
    isQuiet: (app: AppRow) => Promise<boolean> = async () => false,
  ): Promise<AppRow> {
    const { lock } = this.#options;
    const step = () => this.#step(id, event, at, isQuiet);
    for (;;) {
      // Never refused for a full queue: the host sends one wake for all requests that wait for the app.
      const next = await (event === 'wake' ? lock.runAnyway(step) : lock.run(step));
      if ('answer' in next) return next.answer;
      await next.end;
    }
  }

  /** Wraps promises in objects: a bare promise would be awaited, and the lock held until it settles. */
  async #step(
    id: string,
    event: LifeEvent,
    at: string,
    isQuiet: (app: AppRow) => Promise<boolean>,
  ): Promise<{ answer: Promise<AppRow> | AppRow } | { end: Promise<unknown> }> {
    const life = await readAppLife(this.#options.db, id);
    if (life === null) throw new Problem('app_not_found');
    const { app, deploying } = life;
    const underway = this.#underway;
    const decision = decide(stateOf(app, underway), event, {
      deployed: app.live_deploy_id !== null,
      deploying,
      quiet: event === 'sweep' && (await isQuiet(app)),
    });
    if (decision === 'join') return { answer: underway!.done };
    if (decision === 'wait') return { end: underway!.done.catch(() => {}) };
    if ('refuse' in decision) throw new Problem('transition_conflict', decision.refuse);
    const { to, effects } = decision;
    if (to !== underway?.state) this.#underway = null;
    if (effects.length === 0) return { answer: app };
    const written = await this.#write(app, effects, at, underway?.before ?? app);
    const marked = effects.some((effect) => effect !== 'send');
    const sent = this.#options.send(written).catch((error: unknown) => {
      throw marked ? afterChange(error) : error;
    });
    return { answer: to === 'parking' || to === 'waking' ? this.#begin(to, app, sent, at) : sent };
  }

  async #write(app: AppRow, effects: readonly Effect[], at: string, before: AppRow): Promise<Wanted> {
    const { db } = this.#options;
    const mark = effects.find((effect): effect is Mark => effect !== 'send');
    const written =
      mark === undefined
        ? await readWanted(db, app.id)
        : await transition(db, app.id, markApp(db, mark, app.id, at, before));
    if (written === null) throw new Problem('app_not_found');
    return written;
  }

  #begin(state: Underway['state'], before: AppRow, sent: Promise<AppRow>, at: string): Promise<AppRow> {
    const underway: Underway = { state, before, done: sent };
    this.#underway = underway;
    underway.done = this.#end(underway, sent, at);
    underway.done.catch(() => {});
    return underway.done;
  }

  /** Waits for the host, and undoes a failed wake. A transition that began meanwhile takes precedence. */
  async #end(underway: Underway, sent: Promise<AppRow>, at: string): Promise<AppRow> {
    const outcome = await sent.catch((error: unknown) => error);
    const app = outcome instanceof Error ? null : (outcome as AppRow);
    // A deploy may be replacing the woken release: then the app is starting, and its requests are queued.
    const reached = app !== null && (underway.state === 'parking' || app.status !== 'crashed');
    const settle = async () => {
      if (this.#underway !== underway) return null;
      try {
        return await this.#step(underway.before.id, reached ? 'reached' : 'failed', at, async () => false);
      } finally {
        // Also when D1 fails: otherwise later events would wait for this transition for ever.
        if (this.#underway === underway) this.#underway = null;
      }
    };
    const settled = await this.#options.lock.runAnyway(settle);
    if (settled !== null && 'answer' in settled) await settled.answer;
    // A failed wake was undone. A requested sleep holds even when the host does not answer.
    if (app === null) throw underway.state === 'waking' && settled !== null ? unchanged(outcome) : outcome;
    if (!reached && settled !== null) {
      throw new Problem(
        'app_unavailable',
        `The app did not start: ${app.last_error ?? 'the host says no more'}`,
      );
    }
    return app;
  }
}

function unchanged(error: unknown): unknown {
  return error instanceof Problem ? new Problem(error.code, error.message) : error;
}

function stateOf(app: AppRow, underway: Underway | null): State {
  if (app.desired_state === 'stopped') return 'stopped';
  if (underway !== null) return underway.state;
  return app.asleep_since === null ? 'awake' : 'asleep';
}
