// Reads the listening sockets of processes from `/proc`.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

export interface Listening {
  /** TCP address, or path of a unix socket. An abstract path begins with `@`. */
  at: { host: string; port: number } | { path: string };
  /** The processes that have it open. */
  pids: number[];
}

const LISTEN = '0A';
const ACCEPTS = '00010000';

/** Returns all TCP and unix sockets on which one of `pids` listens. */
export function listeningSockets(pids: number[]): Listening[] {
  const holders = holdersOf(pids);
  const held = (inode: string, at: Listening['at']): Listening[] =>
    holders.has(inode) ? [{ at, pids: holders.get(inode)! }] : [];
  const tcp = ['tcp', 'tcp6'].flatMap((kind) =>
    table(kind).flatMap((words) => (words[3] === LISTEN ? held(words[9]!, addressOf(words[1]!)) : [])),
  );
  const unix = table('unix').flatMap((words) =>
    words[3] === ACCEPTS ? held(words[6]!, { path: words[7] ?? '' }) : [],
  );
  return [...tcp, ...unix];
}

function table(kind: string): string[][] {
  const lines = readFileSync(`/proc/net/${kind}`, 'utf8').trim().split('\n');
  return lines.slice(1).map((line) => line.trim().split(/\s+/));
}

/** Returns which of `pids` have each socket open, by inode. */
function holdersOf(pids: number[]): Map<string, number[]> {
  const holders = new Map<string, number[]>();
  for (const pid of pids) {
    for (const descriptor of descriptorsOf(pid)) {
      const inode = inodeOf(`/proc/${pid}/fd/${descriptor}`);
      if (inode !== undefined) holders.set(inode, [...(holders.get(inode) ?? []), pid]);
    }
  }
  return holders;
}

function descriptorsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`);
  } catch {
    // The process has ended meanwhile.
    return [];
  }
}

function inodeOf(descriptor: string): string | undefined {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(descriptor))?.[1];
  } catch {
    // The descriptor was closed meanwhile.
    return undefined;
  }
}

/** Parses an address of `/proc/net/tcp`: little-endian words of four bytes, and a port, both in hexadecimal. */
function addressOf(text: string): { host: string; port: number } {
  const [address, port] = text.split(':') as [string, string];
  const bytes = address.match(/.{8}/g)!.flatMap((word) => word.match(/../g)!.reverse());
  const host =
    bytes.length === 4
      ? bytes.map((byte) => Number.parseInt(byte, 16)).join('.')
      : bytes.join('').match(/.{4}/g)!.join(':');
  return { host, port: Number.parseInt(port, 16) };
}
