// How much apps keep on the disk, which a child process counts, and how much they write, which the kernel counts.
import { ChildError, runChild } from '../processes/child.ts';
import { limited } from '../resources/limited.ts';

const TIMEOUT_MS = 60_000;
/** Apps that one child counts: the host stands still while it makes one. */
const AT_ONCE = 500;
const KB_IN_MB = 1024;
const BYTES_IN_MB = 2 ** 20;

/** The directories and the process of an app that are looked at. */
export interface Storage {
  id: string;
  /** The directories of what it keeps. */
  directories: string[];
  /** Its process, while it has one. */
  pid: number | null;
  /** Bytes that this process has written since its start, as the kernel counts them: not on every file system. */
  writtenBytes: number;
}

/** Something known of an app at a time, in MiB and ms. */
interface Sample {
  at: number;
  megabytes: number;
}

/** How much an app had written, or kept, over a window of time. */
class Growth {
  #samples: Sample[] = [];

  add(sample: Sample, windowMs: number): void {
    // The last one before the window stays: growth is counted from there.
    while (this.#samples.length > 1 && this.#samples[1]!.at <= sample.at - windowMs) this.#samples.shift();
    // A list that grows has room for seventeen at once, and thousands of apps rest.
    if (this.#samples.length === 0) this.#samples = [sample];
    else this.#samples.push(sample);
  }

  /** Growth since the first sample, in MiB. */
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
  /** MiB that its process had written when it was measured. */
  writtenAtMeasure: number;
  /** Whether it had a process since it was measured. */
  stale: boolean;
}

export class StorageUse {
  readonly #windowMs: number;
  readonly #known = new Map<string, Known>();
  /** Whether the apps were noted before: which were there when the host started is known. */
  #noted = false;

  /** @param windowMs the time over which `growth` is counted */
  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** Takes note of what the kernel tells of the apps' processes. Apps that are not among them are forgotten. */
  note(apps: Storage[], now: number): void {
    const ids = new Set(apps.map(({ id }) => id));
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id);
    const isFirst = !this.#noted;
    this.#noted = true;
    for (const { id, pid, writtenBytes } of apps) {
      const isNew = !this.#known.has(id);
      const known = this.#of(id);
      // A new app has kept nothing until now.
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

  /** MiB that an app keeps, as last measured; null when it never was. */
  size(id: string): number | null {
    return this.#known.get(id)?.size?.megabytes ?? null;
  }

  /** MiB that an app has written, or keeps more, in the window up to now. */
  growth(id: string): number {
    const known = this.#known.get(id);
    return known ? Math.max(known.written.megabytes, known.kept.megabytes) : 0;
  }

  /**
   * Whether an app should be measured: it never was, or may keep something else by now and was not for `everyMs`, or has
   * written as much since as it had room left below `limitMb`.
   */
  isDue({ id, writtenBytes }: Storage, now: number, everyMs: number, limitMb: number): boolean {
    const known = this.#of(id);
    if (known.size === null) return true;
    if (!known.stale) return false;
    const since = writtenBytes / BYTES_IN_MB - known.writtenAtMeasure;
    return now - known.size.at >= everyMs || known.size.megabytes + since >= limitMb;
  }

  /** Measures apps. What cannot be counted in a minute, or before `signal` is aborted, stays as it was. Never rejects. */
  async measure(apps: Storage[], signal: AbortSignal): Promise<void> {
    for (let from = 0; from < apps.length; from += AT_ONCE) {
      const portion = apps.slice(from, from + AT_ONCE);
      const paths = portion.flatMap(({ directories }) => directories);
      const sizes = await count(paths, signal);
      if (signal.aborted) return;
      const at = performance.now();
      for (const { id, directories, pid, writtenBytes } of portion) {
        const known = this.#of(id);
        // A directory that is not there keeps nothing.
        const counted = directories.flatMap((path) => sizes.get(path) ?? []);
        const megabytes = counted.length > 0 ? counted.reduce((a, b) => a + b) : (known.size?.megabytes ?? 0);
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

/** MiB of directories, by path. Those that are not there are left out. */
async function count(paths: string[], signal: AbortSignal): Promise<Map<string, number>> {
  const words = [...limited(), 'nice', '-n', '19', 'du', '-sk', '--', ...paths];
  const output = await runChild(words, { title: 'du', timeoutMs: TIMEOUT_MS, signal }).then(
    ({ output }) => output.toString('utf8'),
    // Files come and go while it counts: it says so, and counts on.
    (error: unknown) => (error instanceof ChildError ? error.output : ''),
  );
  const lines = output.split('\n').map((line) => /^(\d+)\t(.*)$/.exec(line));
  return new Map(lines.flatMap((found) => (found ? [[found[2]!, Number(found[1]) / KB_IN_MB]] : [])));
}
