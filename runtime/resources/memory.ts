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
}

/**
 * Returns the memory of this process's cgroup (v2, else v1), or of the ancestor with the lowest limit. Without a cgroup or a
 * limit, the total is the machine's.
 * @param root the directory with `proc` and `sys`
 */
export function readMemory(root = '/'): Memory {
  const groups = (text(root, 'proc/self/cgroup') ?? '').split('\n');
  return cgroup2(root, groups) ?? cgroup1(root, groups) ?? machine(root);
}

function cgroup2(root: string, groups: string[]): Memory | null {
  const found = lowestLimit(root, 'sys/fs/cgroup', ownPath2(groups) ?? '/', 'memory.max');
  if (found === null) return null;
  const { directory, total } = found;
  const inactive = field(text(root, join(directory, 'memory.stat')), 'inactive_file ');
  const used = Number(text(root, join(directory, 'memory.current'))) - inactive;
  return { source: 'cgroup v2', total, used };
}

function cgroup1(root: string, groups: string[]): Memory | null {
  const path = groups.map((line) => /^\d+:(?:.*,)?memory(?:,.*)?:(.*)$/.exec(line)?.[1]).find(Boolean) ?? '/';
  const found = lowestLimit(root, 'sys/fs/cgroup/memory', path, 'memory.limit_in_bytes');
  if (found === null) return null;
  const { directory, total } = found;
  const inactive = field(text(root, join(directory, 'memory.stat')), 'total_inactive_file ');
  const used = Number(text(root, join(directory, 'memory.usage_in_bytes'))) - inactive;
  return { source: 'cgroup v1', total, used };
}

/**
 * Returns the lowest limit of the group `path` and of its visible ancestors, with the directory of the group that has it.
 * Without a limit, that is the innermost group. In a container, `/proc` may show the group's path on the machine, while the
 * container sees the group as the root.
 */
function lowestLimit(
  root: string,
  mounted: string,
  path: string,
  file: string,
): { directory: string; total: number } | null {
  let lowest: { directory: string; total: number } | null = null;
  const own = join(mounted, path);
  for (
    let directory = own.startsWith(mounted) ? own : mounted;
    directory.startsWith(mounted);
    directory = dirname(directory)
  ) {
    const limit = text(root, join(directory, file));
    const total = limited(limit);
    if (limit !== null && (lowest === null || total < lowest.total)) lowest = { directory, total };
  }
  return lowest;
}

function machine(root: string): Memory {
  const available = field(text(root, 'proc/meminfo'), 'MemAvailable:') * 1024;
  return { source: 'machine', total: totalmem(), used: totalmem() - available };
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
