// The browser sessions of all apps, within limits for the machine and for an account.
import { availableParallelism } from 'node:os';
import { FairQueue } from '../queues/fair-queue.ts';
import { failed, notFound, tooMany } from './errors.ts';
import { type Browser, CLOSED, Session, type SessionInfo } from './session.ts';

/** Maximum launches of an account in a minute. */
const LAUNCHES = 30;
const MINUTE_MS = 60_000;
/** Maximum ended sessions of an app that are remembered, for `history`. */
const HISTORY = 50;
/** Maximum browsers that start at a time: more at once would all be slow. One account may start one fewer at a time. */
const STARTING = Math.max(2, availableParallelism());

export interface SessionLimits {
  /** Maximum sessions at a time. */
  all: number;
  /** Maximum sessions of one account at a time. */
  perOwner: number;
}

interface Known {
  app: string;
  owner: string;
  session: Session;
}

export class Sessions {
  readonly #limits: SessionLimits;
  readonly #make: (browser: number) => Browser;
  /** Sessions that have not ended, by the number of their browser. */
  readonly #known = new Map<number, Known>();
  /** Times of launches in the last minute, by account. */
  readonly #launches = new Map<string, number[]>();
  /** Ended sessions, by app, the newest first. */
  readonly #ended = new Map<string, SessionInfo[]>();
  readonly #starts = new FairQueue({
    name: 'browser launches',
    running: STARTING,
    runningPerOwner: STARTING - 1,
    waitingPerOwner: 16,
  });
  #lastBrowser = 0;

  /** @param make makes the browser of a session */
  constructor(limits: SessionLimits, make: (browser: number) => Browser) {
    this.#limits = limits;
    this.#make = make;
  }

  /** Starts a session. @throws {BrowserError} at a limit, and when the browser does not start */
  async start(app: string, owner: string, keepAliveMs: number): Promise<Session> {
    this.#requirePlace(owner);
    const browser = ++this.#lastBrowser;
    const session = new Session(this.#make(browser), keepAliveMs, () => this.#forget(browser));
    this.#known.set(browser, { app, owner, session });
    await this.#starts.run({ owner }, () => session.start());
    return session;
  }

  /** Returns an open session. @throws {BrowserError} when the app has no such session, or it has ended */
  find(app: string, id: string): Session {
    const found = this.#of(app).find((session) => session.id === id);
    if (found !== undefined) return found;
    const ended = this.#ended.get(app)?.find(({ sessionId }) => sessionId === id);
    throw notFound(
      ended === undefined
        ? `there is no browser session ${id}`
        : `the browser session ${id} has ended: ${ended.closeReasonText}`,
    );
  }

  list(app: string): SessionInfo[] {
    return this.#of(app).map(({ info }) => info);
  }

  /** Returns the sessions of an app, ended ones too, the newest first. */
  history(app: string): SessionInfo[] {
    return [...this.list(app).reverse(), ...(this.#ended.get(app) ?? [])];
  }

  /** Returns an app's open sessions and its account's limits, by Cloudflare's names. */
  limits(app: string, owner: string) {
    const launches = this.#recentLaunches(owner);
    const isFull = launches.length >= LAUNCHES;
    return {
      activeSessions: this.#of(app).map(({ id }) => ({ id })),
      maxConcurrentSessions: this.#limits.perOwner,
      allowedBrowserAcquisitions: LAUNCHES - launches.length,
      timeUntilNextAllowedBrowserAcquisition: isFull ? launches[0]! + MINUTE_MS - Date.now() : 0,
    };
  }

  /** Ends the session of a browser that has ended. */
  browserEnded(browser: number, why: string): void {
    this.#known.get(browser)?.session.end(CLOSED.error, why);
  }

  /** Ends all sessions of an app, and deletes its history. */
  endAll(app: string): void {
    for (const session of this.#of(app)) session.end(CLOSED.normal, 'the app was stopped');
    this.#ended.delete(app);
  }

  #of(app: string): Session[] {
    return [...this.#known.values()].filter((known) => known.app === app).map(({ session }) => session);
  }

  #requirePlace(owner: string): void {
    const { all, perOwner } = this.#limits;
    const own = [...this.#known.values()].filter((known) => known.owner === owner).length;
    if (own >= perOwner)
      throw tooMany(`an account may have at most ${perOwner} browser sessions at a time; close one first`);
    if (this.#known.size >= all)
      throw failed(`this Cellar may have at most ${all} browser sessions at a time; try again`);
    const launches = this.#recentLaunches(owner);
    if (launches.length >= LAUNCHES)
      throw tooMany(`an account may launch at most ${LAUNCHES} browsers in a minute; try again later`);
    launches.push(Date.now());
    this.#launches.set(owner, launches);
  }

  #recentLaunches(owner: string): number[] {
    for (const [each, times] of this.#launches) {
      const recent = times.filter((at) => at > Date.now() - MINUTE_MS);
      if (recent.length > 0) this.#launches.set(each, recent);
      else this.#launches.delete(each);
    }
    return this.#launches.get(owner) ?? [];
  }

  #forget(browser: number): void {
    const known = this.#known.get(browser);
    if (known === undefined) return;
    this.#known.delete(browser);
    const ended = [known.session.info, ...(this.#ended.get(known.app) ?? [])];
    this.#ended.set(known.app, ended.slice(0, HISTORY));
  }
}
