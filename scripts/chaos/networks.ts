// Gives each host its own network, as if each had its own machine: network namespaces that a bridge joins. They share
// the clock, so clocks cannot differ. Needs root.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const RELAY = fileURLToPath(new URL('relay.ts', import.meta.url));
/** Prefix of the names of network devices and namespaces. The name of a device has at most 15 characters. */
const NAME = `cc${process.pid}`;
const SUBNET = `10.213.${process.pid % 256}`;
/** Shell script that removes the networks when its standard input ends. That also happens when this process is killed. */
const REMOVE = `read _
rm -rf "$1"
shift
for name in "$@"; do
  for pid in $(ip netns pids "$name"); do kill -9 "$pid"; done
  ip netns del "$name"
done
ip link del ${NAME}`;

/** What a host is cut from. `everything` includes the bucket. */
export type Cut = 'the other hosts' | 'everything';

export class Networks {
  /** Address of this machine in the network. */
  readonly gateway = `${SUBNET}.254`;
  readonly #directory = mkdtempSync(join(tmpdir(), 'cellar-networks-'));
  readonly #count: number;
  readonly #remover: ChildProcess;
  readonly #relays: ChildProcess[] = [];

  /** Creates the networks. @param count the number of hosts @throws {Error} when the system cannot create them */
  constructor(count: number) {
    this.#count = count;
    // Fails now if `nft` is missing, rather than in the first round that cuts a host.
    execFileSync('nft', ['--version'], { stdio: 'ignore' });
    const names = this.#hosts.map((at) => this.#nameOf(at));
    this.#remover = spawn('sh', ['-c', REMOVE, 'sh', this.#directory, ...names], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    });
    ip('link', 'add', NAME, 'type', 'bridge');
    ip('link', 'set', NAME, 'up');
    ip('addr', 'add', `${this.gateway}/24`, 'dev', NAME);
    for (const at of this.#hosts) this.#add(at);
  }

  /** Returns the address of a host. @param at the host's index */
  address(at: number): string {
    return `${SUBNET}.${at + 1}`;
  }

  /** Returns the path of a program that runs Node.js in the network of a host. */
  node(at: number, node: string): string {
    const path = join(this.#directory, `node-${at}`);
    const program = `#!/bin/sh\nexec nsenter --net=/run/netns/${this.#nameOf(at)} ${node} "$@"\n`;
    writeFileSync(path, program, { mode: 0o755 });
    return path;
  }

  /** Makes ports on a host's loopback reachable at its address. Returns before they are reachable. */
  relay(at: number, ...ports: number[]): void {
    const words = [this.address(at), ...ports.map(String)];
    const relay = spawn(this.node(at, process.execPath), [RELAY, ...words], {
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    this.#relays.push(relay);
  }

  /** Drops all packets between a host and `from`, in both directions. */
  cut(at: number, from: Cut): void {
    const others = this.#hosts.filter((other) => other !== at).map((other) => this.address(other));
    const those = (side: string) =>
      from === 'everything' ? 'meta nfproto ipv4' : `ip ${side} { ${others.join(', ')} }`;
    this.#inside(
      at,
      `add table inet cut
add chain inet cut in { type filter hook input priority -300; }
add chain inet cut out { type filter hook output priority -300; }
add rule inet cut in iif != lo ${those('saddr')} drop
add rule inet cut out oif != lo ${those('daddr')} drop
`,
    );
  }

  /** Ends a cut. */
  join(at: number): void {
    this.#inside(at, 'delete table inet cut\n');
  }

  /** Kills all processes in the networks, and removes the networks. */
  async close(): Promise<void> {
    for (const relay of this.#relays) relay.stdin!.end();
    const removed = new Promise((resolve) => this.#remover.once('exit', resolve));
    this.#remover.stdin!.end();
    await removed;
  }

  get #hosts(): number[] {
    return Array.from({ length: this.#count }, (_, at) => at);
  }

  #nameOf(at: number): string {
    return `${NAME}h${at}`;
  }

  #add(at: number): void {
    const name = this.#nameOf(at);
    ip('netns', 'add', name);
    ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    ip('link', 'set', name, 'master', NAME, 'up');
    ip('-n', name, 'addr', 'add', `${this.address(at)}/24`, 'dev', 'eth0');
    ip('-n', name, 'link', 'set', 'eth0', 'up');
    ip('-n', name, 'link', 'set', 'lo', 'up');
  }

  /** Changes the packet filter of a host's network. */
  #inside(at: number, rules: string): void {
    execFileSync('nsenter', [`--net=/run/netns/${this.#nameOf(at)}`, 'nft', '-f', '-'], { input: rules });
  }
}

function ip(...words: string[]): void {
  execFileSync('ip', words, { stdio: ['ignore', 'ignore', 'inherit'] });
}
