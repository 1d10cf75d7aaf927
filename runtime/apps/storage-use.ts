// Measures how much apps store, with `du` in a child process and counts in the bucket, and how much they write, with the
// kernel's counters.

import { directorySizes } from '../disk/sizes.ts';
import { logRarely, reason } from '../log.ts';
import { aborted } from '../threads/aborted.ts';

/** Timeout of a count in the bucket, in ms. A slow count must not delay other apps. */
const IN_BUCKET_MS = 20_000;
/** Maximum number of apps that one child process measures. Each fork blocks the host for a moment. */
const AT_ONCE = 500;
const BYTES_IN_MB = 2 ** 20;

/** The directories and the process of an app that are measured. */
export interface Storage {
  id: string;
  /** The directories of its storage. */
  directories: string[];
  /** Null without a process. */
  pid: number | null;
  /**
   * Bytes that the app's processes have written since their start, as the kernel counts them; 0 without a process, and where
   * the count cannot be read.
   */
  writtenBytes: number;
  /** Counts the bytes of its data in the bucket, which costs requests there. Left out for data on this machine. */
  bytesInBucket?: () => Promise<number>;
}

/** A measured value in MiB. `at`: when it was measured, as `performance.now()`. */
interface Sample {
  at: number;
  megabytes: number;
}

/** Growth of a value over a time window. */
class Growth {
  #samples: Sample[] = [];

  add(sample: Sample, windowMs: number): void {
    // Keeps the newest sample from before the window, as the base of the growth.
    while (this.#samples.length > 1 && this.#samples[1]!.at <= sample.at - windowMs) this.#samples.shift();
    // `push` on an empty array allocates seventeen slots, too much for thousands of idle apps.
    if (this.#samples.length === 0) this.#samples = [sample];
    else this.#samples.push(sample);
  }

  /** Growth since the oldest kept sample, in MiB. */
  get megabytes(): number {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    return first && last ? Math.max(0, last.megabytes - first.megabytes) : 0;
  }
}

interface Known {
  pid: number | null;
  written: Growth;
  kept: Growth;
  /** As last measured; null before that. */
  size: Sample | null;
  /** MiB that its process had written at the last measurement. */
  writtenAtMeasure: number;
  /** Whether it had a process since the last measurement. */
  stale: boolean;
}

export class StorageUse {
  readonly #windowMs: number;
  readonly #known = new Map<string, Known>();
  /** Whether `note` was called before. Apps in the first call existed before the host started. */
  #noted = false;

  /** @param windowMs time window of `growth` */
  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** Records the kernel's counters of the apps' processes. Forgets apps that `apps` lacks. */
  note(apps: Storage[], now: number): void {
    const ids = new Set(apps.map(({ id }) => id));
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id);
    const isFirst = !this.#noted;
    this.#noted = true;
    for (const { id, pid, writtenBytes } of apps) {
      const isNew = !this.#known.has(id);
      const known = this.#of(id);
      // A new app starts with no storage.
      if (isNew && !isFirst) known.kept.add({ at: now, megabytes: 0 }, this.#windowMs);
      if (known.pid !== pid) {
        known.pid = pid;
        known.written = new Growth();
        known.writtenAtMeasure = 0;
      }
      if (pid === null) continue;
      known.stale = true;
      known.written.add({ at: now, megabytes: writtenBytes / BYTES_IN_MB }, this.#windowMs);
    }
  }

  /** Returns the MiB that an app stores, as last measured; null before that. */
  size(id: string): number | null {
    return this.#known.get(id)?.size?.megabytes ?? null;
  }

  /** Returns when an app was measured last, as `performance.now()`; `-Infinity` before that. */
  measuredAt(id: string): number {
    return this.#known.get(id)?.size?.at ?? Number.NEGATIVE_INFINITY;
  }

  /** Returns the MiB by which an app's writes or storage have grown in the window. */
  growth(id: string): number {
    const known = this.#known.get(id);
    return known ? Math.max(known.written.megabytes, known.kept.megabytes) : 0;
  }

  /**
   * Whether an app should be measured: it never was, or it may have changed, and `everyMs` are over or its writes may have
   * brought it to `limitMb`. An app in the bucket is measured only while its process runs, and again only after writes.
   */
  isDue(
    { id, pid, writtenBytes, bytesInBucket }: Storage,
    now: number,
    everyMs: number,
    limitMb: number,
  ): boolean {
    const known = this.#of(id);
    // Data in the bucket is counted only while a process may write it.
    if (bytesInBucket && pid === null) return false;
    if (known.size === null) return true;
    if (!known.stale) return false;
    const since = writtenBytes / BYTES_IN_MB - known.writtenAtMeasure;
    if (bytesInBucket && since === 0) return false;
    return now - known.size.at >= everyMs || known.size.megabytes + since >= limitMb;
  }

  /** Measures apps. Values that cannot be counted in time, or before `signal` aborts, stay unchanged. Never rejects. */
  async measure(apps: Storage[], signal: AbortSignal): Promise<void> {
    for (let from = 0; from < apps.length; from += AT_ONCE) {
      const portion = apps.slice(from, from + AT_ONCE);
      const paths = portion.flatMap(({ directories }) => directories);
      const [sizes, inBuckets] = await Promise.all([
        directorySizes(paths, signal),
        Promise.all(portion.map((app) => countInBucket(app, signal))),
      ]);
      if (signal.aborted) return;
      const at = performance.now();
      for (const [n, { id, directories, pid, writtenBytes, bytesInBucket }] of portion.entries()) {
        const known = this.#of(id);
        const inBucket = inBuckets[n]!;
        if (inBucket === null) continue;
        // A missing directory stores nothing.
        const counted = directories.flatMap((path) => sizes.get(path) ?? []);
        const local = counted.reduce((a, b) => a + b, 0);
        const isKnown = counted.length > 0 || bytesInBucket;
        const megabytes = isKnown ? local + inBucket / BYTES_IN_MB : (known.size?.megabytes ?? 0);
        known.size = { at, megabytes };
        known.kept.add(known.size, this.#windowMs);
        known.writtenAtMeasure = writtenBytes / BYTES_IN_MB;
        known.stale = pid !== null;
      }
    }
  }

  #of(id: string): Known {
    let known = this.#known.get(id);
    if (known === undefined) {
      known = {
        pid: null,
        written: new Growth(),
        kept: new Growth(),
        size: null,
        writtenAtMeasure: 0,
        stale: true,
      };
      this.#known.set(id, known);
    }
    return known;
  }
}

/** Returns the bytes of an app's data in the bucket; null when they cannot be counted in time. */
async function countInBucket({ id, bytesInBucket }: Storage, signal: AbortSignal): Promise<number | null> {
  if (bytesInBucket === undefined) return 0;
  const ended = AbortSignal.any([signal, AbortSignal.timeout(IN_BUCKET_MS)]);
  return Promise.race([bytesInBucket(), aborted(ended)]).catch((error: unknown) => {
    logRarely('warn', 'the data of an app in the bucket could not be counted, so its limit is not applied', {
      app: id,
      error: reason(error),
    });
    return null;
  });
}
