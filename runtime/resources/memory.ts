// Total and used memory of the container in which Cellar runs, or of the machine.
import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import { ownPath2 } from './cgroup-place.ts';

/** Memory of the container, or of the machine if it has no cgroup. */
export interface Memory {
  /** Where the figures were read. */
  source: 'cgroup v2' | 'cgroup v1' | 'machine';
  /** In bytes. */
  total: number;
  /** Bytes in use that the kernel cannot reclaim at once. */
  used: number;
  /** Bytes that are left: within the limits of parent groups too, whose other members use memory. */
  free: number;
}

/** The files of a memory cgroup, and a field of its `memory.stat`. */
interface Files {
  source: Memory['source'];
  mounted: string;
  limit: string;
  usage: string;
  inactive: string;
}

const V2: Files = {
  source: 'cgroup v2',
  mounted: 'sys/fs/cgroup',
  limit: 'memory.max',
  usage: 'memory.current',
  inactive: 'inactive_file ',
};
const V1: Files = {
  source: 'cgroup v1',
  mounted: 'sys/fs/cgroup/memory',
  limit: 'memory.limit_in_bytes',
  usage: 'memory.usage_in_bytes',
  inactive: 'total_inactive_file ',
};

/**
 * Returns the memory of this process's cgroup (v2, else v1), or of the ancestor with the lowest limit. Without a cgroup or a
 * limit, the total is the machine's.
 * @param root the directory with `proc` and `sys`
 */
export function readMemory(root = '/'): Memory {
  const groups = (text(root, 'proc/self/cgroup') ?? '').split('\n');
  const path1 =
    groups.map((line) => /^\d+:(?:.*,)?memory(?:,.*)?:(.*)$/.exec(line)?.[1]).find(Boolean) ?? '/';
  return lowestLimit(root, V2, ownPath2(groups) ?? '/') ?? lowestLimit(root, V1, path1) ?? machine(root);
}

/**
 * Returns the memory of the group `path`, or of its visible ancestor with the lowest limit. Without a limit, that is the
 * innermost group. In a container, `/proc` may show the group's path on the machine, while the container sees the group as
 * the root.
 */
function lowestLimit(
  root: string,
  { source, mounted, limit, usage, inactive }: Files,
  path: string,
): Memory | null {
  let lowest: Memory | null = null;
  const own = join(mounted, path);
  for (
    let directory = own.startsWith(mounted) ? own : mounted;
    directory.startsWith(mounted);
    directory = dirname(directory)
  ) {
    const read = (file: string) => text(root, join(directory, file));
    const bytes = read(limit);
    const total = limited(bytes);
    // A parent without a limit takes no memory from the group, whatever its other members use.
    if (bytes === null || (lowest !== null && total === totalmem())) continue;
    const used = Number(read(usage)) - field(read('memory.stat'), inactive);
    const free = Math.min(total - used, lowest?.free ?? total);
    if (lowest === null || total < lowest.total) lowest = { source, total, used, free };
    else lowest.free = free;
  }
  return lowest;
}

function machine(root: string): Memory {
  const available = field(text(root, 'proc/meminfo'), 'MemAvailable:') * 1024;
  return { source: 'machine', total: totalmem(), used: totalmem() - available, free: available };
}

/** Parses a limit in bytes. No limit is `max` in v2, and a number above all memory in v1. */
function limited(limit: string | null): number {
  return Math.min(Number(limit) || Number.POSITIVE_INFINITY, totalmem());
}

function field(lines: string | null, name: string): number {
  const line = lines?.split('\n').find((candidate) => candidate.startsWith(name));
  return Number.parseInt(line?.slice(name.length) ?? '', 10) || 0;
}

function text(root: string, path: string): string | null {
  try {
    return readFileSync(join(root, path), 'utf8').trim();
  } catch {
    return null;
  }
}
