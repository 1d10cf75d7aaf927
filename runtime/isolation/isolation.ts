// Isolates builds and apps from this machine, as far as the machine allows: packet filter rules, control groups, a build
// sandbox. The host sets this up at its start, and removes it at its end. Logs at the start what is missing.
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { isDiskFull } from '../disk/disk.ts';
import { removeTree } from '../disk/remove.ts';
import { log, reason } from '../log.ts';
import { CellGroups, openCellGroups, useCellGroups } from '../resources/cell-groups.ts';
import { type ControlGroup, ControlGroups, openControlGroups } from '../resources/cgroup.ts';
import { openLowPriorityGroup } from '../resources/low-priority-group.ts';
import { type CellNetwork, type Endpoint, type Firewall, openFirewall } from './firewall.ts';
import { findSandbox, type Sandbox, type View } from './sandbox.ts';
import { canFilter } from './seccomp.ts';
import { type AppUsers, canBindRoot, NOBODY, type User } from './users.ts';
import { short, warnOfWeakness } from './weakness.ts';

const BUILDS = 'docs/security.md#builds';

interface Probe {
  scratch: string;
  user: User | null;
}

export class Isolation {
  readonly #name: string;
  /** The control groups of builds and browsers; `null` where none can be made. */
  #groups: ControlGroups | null = null;
  #cells: CellGroups | null = null;
  readonly #cellMb: number | null;
  #firewall: Firewall | null = null;
  /** Returns the private endpoints that builds need. */
  #registries: () => Promise<Endpoint[]> = async () => [];
  /** Settles when the newest lookup of the registries has ended, and the rules open those found. */
  #reached: Promise<void> = Promise.resolve();
  #isLookingUp = false;
  /** The directory and the user for probing the sandbox; `null` before `open`. */
  #probe: Probe | null = null;
  #sandbox: Promise<Sandbox | null> | null = null;

  /**
   * @param name unique among the Cellars of this machine
   * @param cellMb memory limit of an app's process, in MiB; `null`: the kernel enforces none
   */
  constructor(name: string, cellMb: number | null = null) {
    this.#name = name;
    this.#cellMb = cellMb;
  }

  /**
   * Sets up isolation. Await it before an app starts.
   * @param users of the existing apps; `null`: apps have no users of their own
   * @param builds the directory of all builds
   * @param registries returns the private endpoints that builds need; it may be slow
   * @param network what apps may reach
   */
  async open(
    users: AppUsers[] | null,
    builds: string,
    registries: () => Promise<Endpoint[]>,
    network: CellNetwork,
  ): Promise<void> {
    this.#probe = { scratch: join(builds, 'probe'), user: users && NOBODY };
    // On a full disk the probe fails: the first build retries it.
    this.sandbox().catch(() => {});
    const groups = openControlGroups(this.#name);
    this.#groups = groups instanceof ControlGroups ? groups : null;
    openLowPriorityGroup(this.#groups?.background() ?? null);
    const cells = this.#cellMb === null ? null : openCellGroups(this.#name, this.#cellMb);
    this.#cells = cells instanceof CellGroups ? cells : null;
    useCellGroups(this.#cells);
    warnOfMissing(groups, cells);
    const firewall =
      users === null ? 'apps have no users of their own' : await openFirewall(this.#name, users, network);
    if (typeof firewall === 'string') {
      return warnOfWeakness("builds reach this machine's networks", firewall, BUILDS);
    }
    this.#firewall = firewall;
    this.#registries = registries;
    this.#letBuildsReach(firewall);
  }

  /**
   * Extends the rules to an app's users. Starts opening name servers and registries, whose addresses change, to its builds:
   * `reach` waits for that. Await it before any process runs as one of these users.
   * @throws {Error} when the rules cannot be extended
   */
  async cover(users: AppUsers): Promise<void> {
    if (this.#firewall === null) return;
    this.#letBuildsReach(this.#firewall);
    await this.#firewall.cover(users);
  }

  /**
   * Opens a port on 127.0.0.1 to one app's process only. Without a firewall, the port is open to all processes.
   * @param isGiven false: removes this rule again
   */
  async givePort(cell: User | null, port: number, isGiven: boolean): Promise<void> {
    if (cell !== null) await this.#firewall?.give(cell, port, isGiven);
  }

  /** Installs missing packet filter rules again, and opens the current name servers. Call it each minute. Never rejects. */
  async refresh(): Promise<void> {
    await this.#firewall?.refresh().catch((error: unknown) =>
      log('warn', 'the packet filter rules could not be checked; Cellar tries again in a minute', {
        error: reason(error),
      }),
    );
  }

  /**
   * Resolves when the newest lookup of the registries has ended, and builds can reach those found. If no name server
   * answers, that takes 5 to 10 s. So only commands that may use the network wait for it. Never rejects.
   */
  reach(): Promise<void> {
    return this.#reached;
  }

  /**
   * Returns the sandbox of builds; `null` if this machine has none, or before `open`.
   * @throws {Error} while the disk is too full to probe the sandbox
   */
  async sandbox(): Promise<Sandbox | null> {
    if (this.#probe === null) return null;
    this.#sandbox ??= this.#findSandbox(this.#probe).catch((error: unknown) => {
      this.#sandbox = null;
      throw error;
    });
    return this.#sandbox;
  }

  /** Makes a control group with limits for one command, such as of a build; `null`: this machine cannot limit groups. */
  async group(name: string, memoryMb: number, tasks: number): Promise<ControlGroup | null> {
    const limits = this.#groups?.limits;
    return limits?.memory && limits.tasks ? this.#groups!.create(name, { memoryMb, tasks }) : null;
  }

  /** Removes isolation. All processes of apps must have ended. Never rejects. */
  async close(): Promise<void> {
    await Promise.allSettled([this.#reached, this.#sandbox]);
    await this.#firewall?.close();
    this.#cells?.close();
    await this.#groups?.close();
  }

  /** Looks up the registries, unless a lookup is running. */
  #letBuildsReach(firewall: Firewall): void {
    if (this.#isLookingUp) return;
    this.#isLookingUp = true;
    this.#reached = this.#registries()
      .then((endpoints) => firewall.letBuildsReach(endpoints))
      .catch((error: unknown) =>
        log('warn', 'builds may not reach a registry or proxy on a private network', {
          error: reason(error),
        }),
      )
      .finally(() => {
        this.#isLookingUp = false;
      });
  }

  async #findSandbox({ scratch, user }: Probe): Promise<Sandbox | null> {
    let found: Sandbox | string;
    try {
      found = await findSandbox(makeView(scratch), user);
    } catch (error) {
      if (isDiskFull(error)) throw error;
      found = reason(error);
    }
    await removeTree(scratch).catch(() => {});
    if (typeof found !== 'string') {
      if (user === null && process.getuid?.() === 0 && !canBindRoot()) {
        warnOfWeakness("builds keep root's capabilities in their sandbox", 'no CAP_SETPCAP', BUILDS);
      }
      if (process.getuid?.() === 0 && !canFilter()) {
        const what = 'builds open sockets of any family';
        warnOfWeakness(what, 'there is no /usr/bin/perl; install perl', BUILDS);
      }
      return found;
    }
    warnOfWeakness("builds see this machine's files and processes", found, BUILDS);
    return null;
  }
}

/** Logs a warning that names the limits that are missing. @param cells `null`: apps have no memory limit of the kernel */
function warnOfMissing(groups: ControlGroups | string, cells: CellGroups | string | null): void {
  const limits = groups instanceof ControlGroups ? groups.limits : null;
  const missing = [
    ...(limits?.memory && limits.tasks ? [] : ['the memory and the processes of builds']),
    ...(typeof cells === 'string' ? ['the memory of apps'] : []),
    ...(limits?.processors ? [] : ['the processors']),
  ];
  if (missing.length === 0) return;
  const why = groups instanceof ControlGroups ? groups.problems : groups;
  log('warn', `no control groups: limits are less strict for ${missing.join(', ')}`, {
    see: 'docs/operations.md#control-groups',
    why: short(why),
  });
}

/** Makes the directories of a view in `scratch`. @returns the view, which shows only the system */
export function makeView(scratch: string): View {
  const view = { root: join(scratch, 'root'), temporary: join(scratch, 'tmp'), shared: join(scratch, 'shm') };
  for (const path of Object.values(view)) mkdirSync(path, { recursive: true, mode: 0o700 });
  chmodSync(scratch, 0o711);
  return { ...view, read: [], write: [], cwd: '/' };
}
