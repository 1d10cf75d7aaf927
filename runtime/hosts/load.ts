// Measures the load of this host, for its reports to the control plane.
import { cpus } from 'node:os';
import type { HostLoad } from '../../handlers/contract/host/hosts.ts';
import type { DiskWatch } from '../disk/disk-watch.ts';
import { readMemory } from '../resources/memory.ts';

const MB = 1024 * 1024;
/** CPU use is averaged over this time, in ms. */
const MEASURED_MS = 60_000;

interface Sample {
  /** As `performance.now()`. */
  at: number;
  idleMs: number;
  allMs: number;
}

export class Load {
  readonly #disk: Pick<DiskWatch, 'freeMb' | 'totalMb'>;
  readonly #counts: () => Pick<HostLoad, 'apps' | 'running'>;
  /** Oldest first. */
  readonly #samples: Sample[] = [sample()];

  /** @param counts returns how many apps this host has, and how many apps have a process */
  constructor(disk: Pick<DiskWatch, 'freeMb' | 'totalMb'>, counts: () => Pick<HostLoad, 'apps' | 'running'>) {
    this.#disk = disk;
    this.#counts = counts;
  }

  /** Returns the load, with the CPU use of the last minute. Call it every few seconds. */
  read(): HostLoad {
    const { total, free } = readMemory();
    const { freeMb, totalMb } = this.#disk;
    return {
      memory_free_bytes: Math.max(0, free),
      memory_total_bytes: total,
      cpu: this.#cpu(),
      disk_free_bytes: freeMb * MB,
      disk_total_bytes: totalMb * MB,
      ...this.#counts(),
    };
  }

  #cpu(): number {
    const now = sample();
    this.#samples.push(now);
    while (this.#samples.length > 2 && now.at - this.#samples[1]!.at >= MEASURED_MS) this.#samples.shift();
    const [oldest] = this.#samples as [Sample];
    const allMs = now.allMs - oldest.allMs;
    return allMs <= 0 ? 0 : Math.min(1, Math.max(0, 1 - (now.idleMs - oldest.idleMs) / allMs));
  }
}

function sample(): Sample {
  let [idleMs, allMs] = [0, 0];
  for (const { times } of cpus()) {
    idleMs += times.idle;
    allMs += times.user + times.nice + times.sys + times.irq + times.idle;
  }
  return { at: performance.now(), idleMs, allMs };
}
