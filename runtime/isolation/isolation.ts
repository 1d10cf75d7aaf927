// What keeps builds and apps away from this machine, as far as it lets the host: rules of the packet filter, control groups,
// a sandbox for builds. Put up at the start, taken down at the end. What is missing, the log says once.
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

interface Probe {
  scratch: string;
  user: User | null;
}

export class Isolation {
  readonly #name: string;
  /** What can be limited of a group of processes; `null`: nothing. */
  #groups: ControlGroups | null = null;
  #cells: CellGroups | null = null;
  readonly #cellMb: number | null;
  #firewall: Firewall | null = null;
  /** Finds what builds need of private networks. */
  #registries: () => Promise<Endpoint[]> = async () => [];
  /** Settles when builds reach that. */
  #reached: Promise<void> = Promise.resolve();
  #isLookingUp = false;
  /** Where the sandbox is tried, and as whom; `null`: the walls are not up. */
  #probe: Probe | null = null;
  #sandbox: Promise<Sandbox | null> | null = null;

  /**
   * @param name no other Cellar on this machine may have the same
   * @param cellMb memory that an app's process may use, in MiB; `null`: the kernel holds no such limit
   */
  constructor(name: string, cellMb: number | null = null) {
    this.#name = name;
    this.#cellMb = cellMb;
  }

  /**
   * Puts the walls up. Await it before an app starts.
   * @param users of the apps that there are; `null`: apps have no users of their own
   * @param builds the directory of all builds
   * @param registries what builds need of private networks; it may take its time
   * @param network what apps may reach
   */
  async open(
    users: AppUsers[] | null,
    builds: string,
    registries: () => Promise<Endpoint[]>,
    network: CellNetwork,
  ): Promise<void> {
    this.#probe = { scratch: join(builds, 'probe'), user: users && NOBODY };
    // On a full disk that cannot be told: the first build asks again.
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
      const what = "builds reach this machine's own services and its networks";
      return log('warn', `${what}: deploy only code you trust`, { why: firewall });
    }
    this.#firewall = firewall;
    this.#registries = registries;
    this.#letBuildsReach(firewall);
  }

  /**
   * Has the rules hold for an app's users, and begins to let its builds reach name servers and registries, whose addresses
   * change: `reach` waits for that. Await it before anything runs as one of them.
   * @throws {Error} when the rules do not hold
   */
  async cover(users: AppUsers): Promise<void> {
    if (this.#firewall === null) return;
    this.#letBuildsReach(this.#firewall);
    await this.#firewall.cover(users);
  }

  /**
   * Resolves when builds reach the registries that were being looked up. Without a name server that takes 5 to 10 s, so only
   * what may use the network waits for it. Never rejects.
   */
  reach(): Promise<void> {
    return this.#reached;
  }

  /** The sandbox of builds; `null`: this machine has none, or the walls are not up. @throws while the disk is too full to try it */
  async sandbox(): Promise<Sandbox | null> {
    if (this.#probe === null) return null;
    this.#sandbox ??= this.#findSandbox(this.#probe).catch((error: unknown) => {
      this.#sandbox = null;
      throw error;
    });
    return this.#sandbox;
  }

  /** A group with limits for one command of a build; `null`: this machine limits no groups in that way. */
  async group(name: string, memoryMb: number, tasks: number): Promise<ControlGroup | null> {
    const limits = this.#groups?.limits;
    return limits?.memory && limits.tasks ? this.#groups!.create(name, { memoryMb, tasks }) : null;
  }

  /** Takes them down. Nothing of an app's may run any more. Never rejects. */
  async close(): Promise<void> {
    await Promise.allSettled([this.#reached, this.#sandbox]);
    await this.#firewall?.close();
    this.#cells?.close();
    await this.#groups?.close();
  }

  /** Looks the registries up, if nobody does so already. */
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
        const kept = "builds keep root's capabilities in their sandbox";
        log('warn', `${kept}: deploy only code you trust`, { why: 'this root lacks CAP_SETPCAP' });
      }
      if (process.getuid?.() === 0 && !canFilter()) {
        const what = 'builds open sockets of any family, also to what runs this virtual machine';
        log('warn', `${what}: deploy only code you trust`, {
          why: 'there is no /usr/bin/perl; install perl',
        });
      }
      return found;
    }
    const what = "builds see this machine's files and processes, as far as their user may";
    log('warn', `${what}: deploy only code you trust`, { why: found });
    return null;
  }
}

/** @param cells `null`: apps are to have no limit */
function warnOfMissing(groups: ControlGroups | string, cells: CellGroups | string | null): void {
  const limits = groups instanceof ControlGroups ? groups.limits : null;
  const missing = [
    ...(limits?.memory && limits.tasks ? [] : ['the memory and the processes of builds']),
    ...(typeof cells === 'string' ? ['the memory of apps'] : []),
    ...(limits?.processors ? [] : ['the processors']),
  ];
  if (missing.length === 0) return;
  const what = `Cellar may make no control groups for ${missing.join(', ')}`;
  log('warn', `${what}: it limits them less strictly, see "Control groups" in docs/operations.md`, {
    why: groups instanceof ControlGroups ? groups.problems : groups,
  });
}

/** A view of nothing but the system, whose directories are made in `scratch`. */
export function makeView(scratch: string): View {
  const view = { root: join(scratch, 'root'), temporary: join(scratch, 'tmp'), shared: join(scratch, 'shm') };
  for (const path of Object.values(view)) mkdirSync(path, { recursive: true, mode: 0o700 });
  chmodSync(scratch, 0o711);
  return { ...view, read: [], write: [], cwd: '/' };
}
