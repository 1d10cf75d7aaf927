// The Durable Object of all hosts: keeps their reports in memory, and decides where apps run.
import { DurableObject } from 'cloudflare:workers';
import {
  countHomes,
  deleteHost,
  drainHost,
  type HostRow,
  listHosts,
  movableApps,
  moveDeletions,
  silenceHost,
  writeHost,
} from '../../sqlite/control/hosts.ts';
import type { AppObject } from '../app/app-object.ts';
import { Lock } from '../app/lock.ts';
import { type Outcome, outcomeOf } from '../app/outcome.ts';
import type { Bindings } from '../bindings.ts';
import type { HostLoad, HostReport, HostState, KnownHost } from '../contract/host/hosts.ts';
import { Problem } from '../problem.ts';
import { evacuate } from './evacuation.ts';
import { roomiest } from './placement.ts';
import { type Heard, isSilent } from './silence.ts';

/**
 * After this time without any report, in ms, this object was probably not reachable. Then a missing report proves nothing.
 */
const STALLED_MS = 10_000;
/** Minimum time between two runs that move apps away from the same host, in ms. */
const PAUSE_MS = 5_000;
/** A host whose last report is older than this, in ms, gets no apps while others report. Hosts report every 2 s. */
const LATE_MS = 6_000;
/** Maximum apps of a lost host that move first, because requests wait for them. */
const AWAITED_MAX = 1_000;
/**
 * Maximum time that a report waits until silent hosts are recorded, in ms. The database may be unreachable after the loss of
 * a host.
 */
const WRITE_MS = 1_000;

export interface HostsBindings extends Bindings {
  APP: DurableObjectNamespace<AppObject>;
}

/** A host and its last report. Fields of the report are null until the host reports to this object. */
export interface SeenHost {
  row: HostRow;
  state: HostState;
  load: HostLoad | null;
  clockAheadMs: number | null;
  /** ISO 8601. */
  reportedAt: string | null;
}

/** The only writer of the table of hosts. It writes when something changes, not for each report. */
export class HostsObject extends DurableObject<HostsBindings> {
  readonly #lock = new Lock();
  readonly #heard = new Map<string, Heard>();
  /** Number of apps that each host got since its last report. */
  readonly #placed = new Map<string, number>();
  /** Ids of hosts that are shutting down. */
  readonly #leaving = new Set<string>();
  /** Runs that move apps away, by host. */
  readonly #moving = new Map<string, Promise<void>>();
  /** When the last run that moved apps away ended, by host, in ms since 1970. */
  readonly #moved = new Map<string, number>();
  /** Apps for which requests wait, by their lost home. */
  readonly #awaited = new Map<string, Set<string>>();
  #since = Date.now();
  #lastReport = Date.now();
  #rows: Promise<Map<string, HostRow>> | null = null;
  #judging: Promise<void> | null = null;

  /**
   * Takes the report of a host. When the host is shutting down, resolves after its apps have moved.
   * @returns all hosts; `host_incompatible` when the host's version cannot work with another host; `host_unavailable` for a
   *   host that is shutting down, when its apps cannot move yet because no other host has reported to this object
   */
  report(report: HostReport): Promise<Outcome<KnownHost[]>> {
    return outcomeOf(async () => {
      const now = Date.now();
      if (now - this.#lastReport > STALLED_MS) this.#forgetReports(now);
      this.#lastReport = now;
      const rows = await this.#known();
      requireCompatible(report, [...rows.values()]);
      this.#heard.set(report.id, { report, at: now });
      this.#placed.delete(report.id);
      if (report.leaves) this.#leaving.add(report.id);
      else this.#leaving.delete(report.id);
      const row = rows.get(report.id);
      if (row === undefined || differs(row, report)) await this.#write(rows, report);
      await within(WRITE_MS, this.#judge(rows));
      this.#hurry(rows, report.awaited);
      for (const id of rows.keys()) if (this.#mustMove(rows, id)) this.#moveAway(rows, id);
      if (report.leaves) {
        await this.#moveAway(rows, report.id);
        await this.#requireMoved(rows, report.id);
      }
      return [...rows.values()].map((each) => this.#shown(each));
    });
  }

  /** Returns all hosts. */
  async list(): Promise<SeenHost[]> {
    const rows = await this.#known();
    return [...rows.values()].map((row) => {
      const heard = this.#heard.get(row.id);
      return {
        row,
        state: this.#stateOf(row),
        load: heard?.report.load ?? null,
        clockAheadMs: heard?.report.clock_ahead_ms ?? null,
        reportedAt: heard === undefined ? null : new Date(heard.at).toISOString(),
      };
    });
  }

  /** Returns the host that gets a new app; null when no host takes apps. */
  async place(): Promise<string | null> {
    return this.#place(await this.#known(), null);
  }

  /** Starts to move the apps of a host away, or allows the host to get apps again. */
  drain(id: string, drains: boolean): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      const rows = await this.#known();
      await this.#lock.run(async () => {
        const row = requireHost(rows, id);
        await drainHost(this.env.DB, id, drains);
        rows.set(id, { ...row, is_draining: drains ? 1 : 0 });
      });
      this.#moved.delete(id);
      if (drains) this.#moveAway(rows, id);
      return null;
    });
  }

  /**
   * Deletes a host's row.
   * @returns `host_in_use` when the host reports and has apps, or while apps have to move away from it
   */
  remove(id: string): Promise<Outcome<null>> {
    return outcomeOf(async () => {
      const rows = await this.#known();
      await this.#lock.run(async () => {
        const row = requireHost(rows, id);
        const counts = (await countHomes(this.env.DB)).find(({ home }) => home === id);
        if (counts !== undefined && row.silent_since === null)
          throw new Problem(
            'host_in_use',
            `The host ${row.name} is running and has apps (${counts.apps}). Drain it, or stop it, first.`,
          );
        const inBucket = counts === undefined ? 0 : counts.apps - counts.local;
        // Without the host's row, no run would move these apps.
        if (inBucket > 0)
          throw new Problem(
            'host_in_use',
            `The host ${row.name} still has apps that have to move to other hosts (${inBucket}); try again when they have moved.`,
          );
        const heir = this.#place(rows, id);
        if (heir !== null) await moveDeletions(this.env.DB, id, heir);
        await deleteHost(this.env.DB, id);
        rows.delete(id);
        this.#heard.delete(id);
      });
      return null;
    });
  }

  /** Reads the rows once: no one else writes them. */
  #known(): Promise<Map<string, HostRow>> {
    this.#rows ??= listHosts(this.env.DB).then(
      (rows) => new Map(rows.map((row) => [row.id, row])),
      (error: unknown) => {
        this.#rows = null;
        throw error;
      },
    );
    return this.#rows;
  }

  #forgetReports(now: number): void {
    this.#heard.clear();
    this.#since = now;
  }

  async #write(rows: Map<string, HostRow>, report: HostReport): Promise<void> {
    await this.#lock.run(async () => {
      rows.set(report.id, await writeHost(this.env.DB, report, new Date().toISOString()));
    });
  }

  /** Records hosts that have become silent. Never rejects: the next report tries again. */
  #judge(rows: Map<string, HostRow>): Promise<void> {
    this.#judging ??= this.#findSilent(rows)
      .catch((error: unknown) =>
        console.error(
          `the hosts that are silent could not be written to the database: ${(error as Error).message}`,
        ),
      )
      .finally(() => {
        this.#judging = null;
      });
    return this.#judging;
  }

  async #findSilent(rows: Map<string, HostRow>): Promise<void> {
    const ids = [...rows.values()].filter((row) => row.silent_since === null).map(({ id }) => id);
    const known = { now: Date.now(), since: this.#since, heard: this.#heard, ids };
    for (const id of ids.filter((each) => isSilent(each, known))) {
      await this.#lock.run(async () => {
        // The host may have reported meanwhile.
        const row = rows.get(id);
        if (row === undefined || row.silent_since !== null) return;
        if (!isSilent(id, { ...known, now: Date.now() })) return;
        const at = new Date().toISOString();
        await silenceHost(this.env.DB, id, at);
        rows.set(id, { ...row, silent_since: at });
        console.error(`host ${row.name} is silent: its apps with data in the bucket move to other hosts`);
      });
    }
  }

  #mustMove(rows: Map<string, HostRow>, id: string): boolean {
    const row = rows.get(id);
    return row !== undefined && this.#stateOf(row) !== 'active';
  }

  /** Notes apps of lost hosts, which then move first. The notes are cleared when the run that moves apps away has ended. */
  #hurry(rows: Map<string, HostRow>, awaited: HostReport['awaited']): void {
    for (const { app, home } of awaited) {
      const row = rows.get(home);
      if (row === undefined || this.#stateOf(row) !== 'silent') continue;
      const apps = this.#awaited.get(home) ?? new Set();
      this.#awaited.set(home, apps);
      if (apps.size < AWAITED_MAX) apps.add(app);
    }
  }

  #takeAwaited(home: string): string[] {
    const apps = [...(this.#awaited.get(home) ?? [])];
    this.#awaited.delete(home);
    return apps;
  }

  /**
   * Moves apps away from a host, or waits for the run that does so already. Does nothing in the `PAUSE_MS` after a run,
   * unless the host is shutting down. Never rejects.
   */
  #moveAway(rows: Map<string, HostRow>, id: string): Promise<void> {
    const running = this.#moving.get(id);
    if (running !== undefined) return running;
    const isLeaving = this.#leaving.has(id);
    if (!isLeaving && Date.now() - (this.#moved.get(id) ?? 0) < PAUSE_MS) return Promise.resolve();
    const run = evacuate({
      db: this.env.DB,
      from: id,
      why: () => {
        if ((rows.get(id)?.silent_since ?? null) !== null) return 'lost';
        return this.#leaving.has(id) ? 'leaves' : 'drained';
      },
      app: (app) => this.env.APP.getByName(app),
      awaited: () => this.#takeAwaited(id),
      place: () => this.#place(rows, id),
      moved: () => this.#hasHandedOver(id),
      goesOn: () => this.#mustMove(rows, id),
    })
      .catch((error: unknown) =>
        console.error(`apps of host ${id} could not be moved to other hosts: ${(error as Error).message}`),
      )
      .finally(() => {
        this.#moving.delete(id);
        this.#moved.set(id, Date.now());
        this.#awaited.delete(id);
      });
    this.#moving.set(id, run);
    this.ctx.waitUntil(run);
    return run;
  }

  /**
   * Checks that apps did not stay on the host only because this object was just loaded: then no other host may have reported
   * to it yet, so no host can take apps.
   * @throws {Problem} `host_unavailable`
   */
  async #requireMoved(rows: Map<string, HostRow>, id: string): Promise<void> {
    const others = [...rows.values()].filter((row) => this.#stateOf(row) === 'active');
    if (others.length === 0 || others.some((row) => this.#heard.has(row.id))) return;
    if ((await movableApps(this.env.DB, id, 1)).length > 0)
      throw new Problem('host_unavailable', 'No other host has reported yet; try again in a moment.');
  }

  /** Counts a move as a report of a host that is shutting down. Otherwise the host would seem lost while its apps move. */
  #hasHandedOver(id: string): void {
    const heard = this.#heard.get(id);
    if (heard !== undefined && this.#leaving.has(id)) heard.at = Date.now();
  }

  /** Chooses the host for an app. @param without the id of a host that must not get the app; null for none */
  #place(rows: Map<string, HostRow>, without: string | null): string | null {
    const candidates = [...rows.values()].flatMap((row) => {
      const heard = this.#heard.get(row.id);
      if (heard === undefined || row.id === without || this.#stateOf(row) !== 'active') return [];
      const isLate = Date.now() - heard.at >= LATE_MS;
      return [{ id: row.id, load: heard.report.load, placed: this.#placed.get(row.id) ?? 0, isLate }];
    });
    const inTime = candidates.filter(({ isLate }) => !isLate);
    const id = roomiest(inTime.length > 0 ? inTime : candidates);
    if (id !== null) this.#placed.set(id, (this.#placed.get(id) ?? 0) + 1);
    return id;
  }

  #stateOf({ id, silent_since, is_draining }: HostRow): HostState {
    if (silent_since !== null) return 'silent';
    return is_draining === 1 || this.#leaving.has(id) ? 'draining' : 'active';
  }

  #shown(row: HostRow): KnownHost {
    const { id, name, address, version, silent_since } = row;
    return { id, name, address, version, state: this.#stateOf(row), silent_since };
  }
}

/** Waits for `work`, for at most `ms` milliseconds. */
async function within(ms: number, work: Promise<void>): Promise<void> {
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(over.resolve, ms);
  await Promise.race([work, over.promise]);
  clearTimeout(timer);
}

function requireHost(rows: Map<string, HostRow>, id: string): HostRow {
  const row = rows.get(id);
  if (row === undefined) throw new Problem('host_not_found');
  return row;
}

/** Checks that a host can work with all other hosts. @throws {Problem} `host_incompatible`, naming the other host */
function requireCompatible(report: HostReport, rows: HostRow[]): void {
  const other = rows.find(
    ({ id, protocol, silent_since }) =>
      id !== report.id && silent_since === null && Math.abs(protocol - report.protocol) > 1,
  );
  if (other === undefined) return;
  throw new Problem(
    'host_incompatible',
    `Host ${report.name} runs Cellar ${report.version}, which cannot work with ${other.version} of host ${other.name}. Upgrade the older one, one version at a time.`,
  );
}

function differs(row: HostRow, report: HostReport): boolean {
  return (
    row.silent_since !== null ||
    row.name !== report.name ||
    row.address !== report.address ||
    row.version !== report.version ||
    row.protocol !== report.protocol ||
    row.started_at !== report.started_at
  );
}
