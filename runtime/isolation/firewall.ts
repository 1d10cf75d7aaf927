// Rules of the kernel's packet filter (nftables) for the users of builds and apps. They block this machine's own services,
// its networks and a provider's metadata. Each Cellar has its own table of rules.
import { existsSync, readFileSync } from 'node:fs';
import { isIPv4, isIPv6 } from 'node:net';
import { log, reason } from '../log.ts';
import { runChild } from '../processes/child.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import { Egress, HELD_V4, HELD_V6 } from './egress.ts';
import { PRIVATE_V4, PRIVATE_V6 } from './private-networks.ts';
import type { AppUsers, User } from './users.ts';

/** The networks and ports that the rules open or close to apps. */
export interface CellNetwork {
  /** Private addresses and CIDR ranges that apps may reach (`RUNNER_EGRESS_ALLOW`). */
  egress: readonly string[];
  /** Ports of this Cellar, closed to apps on every address of this machine. */
  ownPorts: readonly number[];
  /** Users of services that connect for apps: `ownPorts` are closed to them too. */
  proxies: readonly User[];
  /** Ports on loopback that apps may connect to: that of the bucket proxy. */
  openPorts: readonly number[];
}

/** An address and port that builds need: of a name server, or of a registry or proxy on a private network. */
export interface Endpoint {
  address: string;
  port: number;
}

const NFT = ['/usr/sbin/nft', '/sbin/nft', '/usr/bin/nft'];
const TIMEOUT_MS = 10_000;
const RESOLV_CONF = '/etc/resolv.conf';
const DNS_PORT = 53;

/** The active rules of one Cellar. */
export class Firewall {
  readonly #table: string;
  /** The nft commands that install the initial rules. */
  readonly #base: string;
  /** Commands that have added elements since the start and are still in force. Keys name the user, the port or the endpoints. */
  readonly #added = new Map<string, string>();
  /** Users of builds that the rules cover. */
  readonly #known = new Set<number>();
  /** Runs one transaction of nft at a time, so that a reinstallation does not lose the elements of a concurrent command. */
  readonly #queue = new SerialQueue();
  #isClosed = false;

  /** Call `openFirewall` instead. */
  constructor(table: string, base: string) {
    this.#table = table;
    this.#base = base;
  }

  /** Extends the rules to an app's users, if they do not cover them. Await it before a build or a new app's process runs. */
  async cover({ build, cell }: AppUsers): Promise<void> {
    if (build === null || cell === null || this.#known.has(build.uid)) return;
    await this.#add(
      `user ${build.uid}`,
      add(this.#table, 'cells', [cell.uid]) +
        add(this.#table, 'builds', [build.uid]) +
        ownListeners(this.#table, [cell.uid, build.uid]),
    );
    this.#known.add(build.uid);
  }

  /** Opens a port on 127.0.0.1 to one app's process only. @param isGiven false: removes this rule again */
  async give(cell: User, port: number, isGiven: boolean): Promise<void> {
    const commands = (verb: 'add' | 'delete') =>
      `${verb} element inet ${this.#table} given_ports { ${port} }\n` +
      `${verb} element inet ${this.#table} takers { ${cell.uid} . ${port} }\n`;
    const key = `port ${port} of ${cell.uid}`;
    if (isGiven) return this.#add(key, commands('add'));
    // Adds the elements first, because nft fails to delete ones that are missing, such as after a failed addition.
    await this.#run(commands('add') + commands('delete'), () => this.#added.delete(key));
  }

  /**
   * Opens these endpoints, and this machine's current name servers, to builds. Earlier endpoints stay open until the rules are
   * installed again.
   */
  async letBuildsReach(endpoints: Endpoint[]): Promise<void> {
    const commands =
      allowed(this.#table, 'resolvers', nameServers()) + allowed(this.#table, 'registries', endpoints);
    if (this.#added.get('endpoints') !== commands) await this.#add('endpoints', commands);
  }

  /**
   * Opens this machine's current name servers to builds and apps. Installs the rules again if another program has removed
   * them, as `nft flush ruleset` does. @throws {Error} when `nft` fails
   */
  async refresh(): Promise<void> {
    // After `nft flush table`, commands do not fail: the sets are still there.
    await this.#queue.run(() => this.#reinstall());
    await this.#add('resolvers', allowed(this.#table, 'resolvers', nameServers()));
  }

  /** Removes the rules. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#run(`delete table inet ${this.#table}\n`, () => {}).catch((error: unknown) =>
      log('warn', 'the firewall rules for builds and apps could not be removed', { error: reason(error) }),
    );
  }

  /** Runs commands that add elements. A reinstallation repeats them, and after a failure the earlier ones of the key. */
  #add(key: string, commands: string): Promise<void> {
    return this.#run(commands, () => this.#added.set(key, commands));
  }

  /** Runs commands, after an installation if the rules are gone. @param record updates `#added` once they are in force */
  #run(commands: string, record: () => void): Promise<void> {
    return this.#queue.run(async () => {
      try {
        await nft(commands);
      } catch (error) {
        if (!(await this.#reinstall())) throw error;
        await nft(commands);
      }
      record();
    });
  }

  /** If the rules are gone, installs them with the elements of `#added`. Call it in the queue. @returns whether it did */
  async #reinstall(): Promise<boolean> {
    if (this.#isClosed || (await this.#isInstalled())) return false;
    log('warn', 'another program removed the packet filter rules; Cellar installs them again', {
      table: this.#table,
    });
    await nft(this.#base + [...this.#added.values()].join(''));
    return true;
  }

  #isInstalled(): Promise<boolean> {
    return nft(`list chain inet ${this.#table} refuse\n`).then(
      (chain) => chain.includes('reject'),
      () => false,
    );
  }
}

/**
 * Installs the rules of this Cellar, and removes those of an earlier run. Opens this machine's name servers to builds and
 * apps.
 * @param name unique among the Cellars of this machine
 * @param users existing users of apps: the rules cover their processes. `cover` extends them to builds, one app at a time,
 *   as there may be thousands
 * @param network addresses that apps may reach; default: none
 * @returns the firewall; on failure, the reason as text for the operator
 */
export async function openFirewall(
  name: string,
  users: AppUsers[],
  { egress, ownPorts, proxies, openPorts }: CellNetwork = {
    egress: [],
    ownPorts: [],
    proxies: [],
    openPorts: [],
  },
): Promise<Firewall | string> {
  const table = name.replaceAll('-', '_');
  const cells = users.flatMap(({ cell }) => (cell === null ? [] : [cell.uid]));
  try {
    const commands = [
      // Creates the table if it is missing, so that the deletion cannot fail.
      `table inet ${table}\ndelete table inet ${table}\n`,
      rules(table),
      add(table, 'cells', cells),
      ownListeners(table, cells),
      allowed(table, 'resolvers', nameServers()),
      opened(table, new Egress(egress)),
      add(table, 'own_ports', [...ownPorts]),
      add(
        table,
        'proxies',
        proxies.map(({ uid }) => uid),
      ),
      add(table, 'open_ports', [...openPorts]),
    ].join('');
    await nft(commands);
    return new Firewall(table, commands);
  } catch (error) {
    return reason(error);
  }
}

/**
 * Returns the rules. Over loopback, a build may connect to its own listeners, as frameworks do, but to no other service. The
 * same holds for an app, whose processes are members of one cluster. The first packet (SYN) passes. The answer (SYN-ACK)
 * passes only if the user of the listening process is the user that sent the SYN. Otherwise it is dropped, and the next SYN
 * is refused.
 */
function rules(table: string): string {
  return `table inet ${table} {
  set builds { type uid; }
  set cells { type uid; }
  set private4 { type ipv4_addr; flags interval; auto-merge; elements = { ${PRIVATE_V4.join(', ')} } }
  set private6 { type ipv6_addr; flags interval; auto-merge; elements = { ${PRIVATE_V6.join(', ')} } }
  set resolvers4 { type ipv4_addr . inet_service; }
  set resolvers6 { type ipv6_addr . inet_service; }
  set registries4 { type ipv4_addr . inet_service; }
  set registries6 { type ipv6_addr . inet_service; }
  set own_ports { type inet_service; }
  set proxies { type uid; }
  set open_ports { type inet_service; }
  set given_ports { type inet_service; }
  set takers { type uid . inet_service; }
  set named4 { type ipv4_addr; flags interval; auto-merge; }
  set named6 { type ipv6_addr; flags interval; auto-merge; }
  set opened4 { type ipv4_addr; flags interval; auto-merge; }
  set opened6 { type ipv6_addr; flags interval; auto-merge; }
  set held4 { type ipv4_addr; flags interval; auto-merge; elements = { ${HELD_V4.join(', ')} } }
  set held6 { type ipv6_addr; flags interval; auto-merge; elements = { ${HELD_V6.join(', ')} } }
  set let_through4 { type ipv4_addr; }
  set let_through6 { type ipv6_addr; }
  map marks { type uid : mark; }
  set marked { type mark; }
  set listeners { type mark . uid; }
  set refused { type mark . inet_service; flags dynamic,timeout; timeout 3s; }

  chain output {
    type filter hook output priority mangle; policy accept;
    ip daddr 127.0.0.1 tcp dport @given_ports goto given
    meta skuid @builds goto builds
    meta skuid @cells goto cells
    meta skuid @proxies fib daddr type local th dport @own_ports goto refuse
    oifname "lo" ct direction reply ct mark @marked tcp flags & (syn | ack) == syn | ack goto answers
  }
  # Closed to all others of this machine too, as an operator may open 127.0.0.1 to all apps.
  chain given {
    meta skuid . tcp dport @takers accept
    goto refuse
  }
  chain resolvers {
    meta l4proto { tcp, udp } ip daddr . th dport @resolvers4 accept
    meta l4proto { tcp, udp } ip6 daddr . th dport @resolvers6 accept
  }
  chain builds {
    oifname "lo" ct direction reply ct mark @marked tcp flags & (syn | ack) == syn | ack goto answers
    jump resolvers
    meta l4proto tcp ip daddr . tcp dport @registries4 accept
    meta l4proto tcp ip6 daddr . tcp dport @registries6 accept
    fib daddr type local goto own_machine
    goto networks
  }
  chain cells {
    oifname "lo" meta l4proto tcp ct direction reply ct mark @marked goto answers
    jump resolvers
    ip daddr 127.0.0.1 tcp dport @open_ports accept
    fib daddr type local th dport @own_ports goto refuse
    ip daddr @named4 accept
    ip6 daddr @named6 accept
    fib daddr type local goto own_machine
    ip daddr @held4 goto refuse
    ip6 daddr @held6 goto refuse
    ip daddr @opened4 accept
    ip6 daddr @opened6 accept
    goto networks
  }
  chain own_machine {
    meta l4proto != tcp goto refuse
    ct state untracked goto refuse
    ct direction reply accept
    ct state new ct mark set meta skuid map @marks
    tcp flags & (syn | ack) == syn ct mark . tcp dport @refused goto refuse
    accept
  }
  chain answers {
    ct mark . meta skuid @listeners accept
    update @refused { ct mark . tcp sport }
    drop
  }
  chain networks {
    fib daddr type { broadcast, anycast, multicast } goto refuse
    ip daddr @private4 goto refuse
    ip6 daddr @private6 goto refuse
    accept
  }
  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject
  }
  # Once other rules have led a packet elsewhere: from an address of this machine to a container's, say.
  chain led_elsewhere {
    type filter hook output priority filter; policy accept;
    ct status dnat meta skuid @builds goto led
    ct status dnat meta skuid @cells goto led_cell
  }
  chain led_cell {
    ct original ip daddr @named4 accept
    ct original ip6 daddr @named6 accept
    ct original ip daddr @held4 goto led
    ct original ip6 daddr @held6 goto led
    ct original ip daddr @opened4 accept
    ct original ip6 daddr @opened6 accept
    goto led
  }
  chain led {
    fib daddr type local accept
    ct mark @marked goto networks
    ct original ip daddr @let_through4 accept
    ct original ip6 daddr @let_through6 accept
    goto networks
  }
}
`;
}

/** Returns the commands that let users connect to their own listening sockets. */
function ownListeners(table: string, uids: number[]): string {
  return [
    add(
      table,
      'marks',
      uids.map((uid) => `${uid} : ${uid}`),
    ),
    add(table, 'marked', uids),
    add(
      table,
      'listeners',
      uids.map((uid) => `${uid} . ${uid}`),
    ),
  ].join('');
}

function allowed(table: string, set: 'resolvers' | 'registries', endpoints: Endpoint[]): string {
  const family = (number: 4 | 6, is: (address: string) => boolean) => {
    const own = endpoints.filter(({ address }) => is(address));
    return [
      add(
        table,
        `${set}${number}`,
        own.map(({ address, port }) => `${address} . ${port}`),
      ),
      add(
        table,
        `let_through${number}`,
        own.map(({ address }) => address),
      ),
    ].join('');
  };
  return family(4, isIPv4) + family(6, isIPv6);
}

/** Returns the rules for addresses that the operator opens to apps. */
function opened(table: string, { named, ranges }: Egress): string {
  const elements = (set: string, networks: string[]) =>
    add(
      table,
      `${set}4`,
      networks.filter((network) => !network.includes(':')),
    ) +
    add(
      table,
      `${set}6`,
      networks.filter((network) => network.includes(':')),
    );
  return elements('named', named) + elements('opened', ranges);
}

function add(table: string, set: string, values: (string | number)[]): string {
  return values.length === 0 ? '' : `add element inet ${table} ${set} { ${values.join(', ')} }\n`;
}

/** Returns the name servers in `/etc/resolv.conf`. */
function nameServers(): Endpoint[] {
  const lines = existsSync(RESOLV_CONF) ? readFileSync(RESOLV_CONF, 'utf8') : '';
  const addresses = [...lines.matchAll(/^nameserver\s+([^\s%]+)/gm)].map(([, address]) => address!);
  // If the file names no server, programs ask the one on this machine: see resolv.conf(5).
  const asked = addresses.length > 0 ? addresses : ['127.0.0.1', '::1'];
  return asked.map((address) => ({ address, port: DNS_PORT }));
}

/** Runs nft commands as one transaction. @returns what `nft` prints @throws {Error} with the message of `nft` */
async function nft(commands: string): Promise<string> {
  const program = NFT.find((path) => existsSync(path));
  if (program === undefined) throw new Error('nft is not installed; install nftables');
  const { output } = await runChild([program, '-f', '-'], {
    title: 'nft',
    input: commands,
    timeoutMs: TIMEOUT_MS,
  });
  return output.toString();
}
