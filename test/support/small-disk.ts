// A small disk of a test's own. It takes root, and a kernel that lets it.
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  rmSync,
  statfsSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';

/** `tmpfs` lies in memory. `ext4` lies in a file beside its place: there a new directory takes room too. */
export type DiskKind = 'tmpfs' | 'ext4';
export const DISK_KINDS: readonly DiskKind[] = ['tmpfs', 'ext4'];

const CHUNK = Buffer.alloc(64 * 1024, 'x');
const SMALLEST = 512;
const endOnSignal = () => process.exit(1);

export class SmallDisk {
  readonly path: string;
  readonly #image: string | null;

  private constructor(path: string, image: string | null) {
    this.path = path;
    this.#image = image;
  }

  /**
   * Mounts a disk at `path`, which is made.
   * @returns null where that is not possible: skip the test with `SmallDisk.why`
   */
  static mount(path: string, megabytes: number, kind: DiskKind = 'tmpfs'): SmallDisk | null {
    mkdirSync(path, { recursive: true });
    const image = kind === 'ext4' ? `${path}.image` : null;
    if (image !== null) {
      closeSync(openSync(image, 'w'));
      truncateSync(image, megabytes * 2 ** 20);
      // Nothing is kept back for root.
      const made = spawnSync('mkfs.ext4', ['-q', '-m', '0', image]);
      if (made.status !== 0) return null;
    }
    // The kernel writes back what waits after five minutes: in a test, only what somebody syncs gets there.
    const words =
      image === null
        ? ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs']
        : ['-o', 'loop,commit=300', image];
    return SmallDisk.#mount(path, image, words);
  }

  static #mount(path: string, image: string | null, words: string[]): SmallDisk | null {
    if (spawnSync('mount', [...words, path]).status !== 0) return null;
    // As a data directory usually lies: other users can come to its door.
    chmodSync(path, 0o711);
    const disk = new SmallDisk(path, image);
    // Also when the test is cut: nobody else would unmount it.
    process.once('exit', disk.#unmount);
    process.once('SIGTERM', endOnSignal);
    return disk;
  }

  static readonly why = 'no disk can be mounted here';

  /** Mounts at `path` what an `ext4` disk would have after a power cut at this moment: what was synced. */
  afterPowerCut(path: string): SmallDisk {
    mkdirSync(path, { recursive: true });
    const image = `${path}.image`;
    copyFileSync(this.#image!, image);
    return SmallDisk.#mount(path, image, ['-o', 'loop', image])!;
  }

  /** MiB that are free. */
  get freeMb(): number {
    const { bavail, bsize } = statfsSync(this.path);
    return (bavail * bsize) / 2 ** 20;
  }

  get #filling(): string {
    return join(this.path, 'filling');
  }

  /** Takes room until `leaveMb` MiB are free; 0 takes the last byte. */
  fill(leaveMb = 0): void {
    const file = openSync(this.#filling, 'a', 0o600);
    try {
      for (let size = CHUNK.length; size >= SMALLEST && (leaveMb === 0 || this.freeMb > leaveMb); ) {
        try {
          writeSync(file, CHUNK, 0, size);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
          size /= 2;
        }
      }
    } finally {
      closeSync(file);
    }
  }

  /** Gives back what `fill` took. */
  clear(): void {
    rmSync(this.#filling, { force: true });
  }

  /** Unmounts it, also while somebody still uses it. */
  [Symbol.dispose](): void {
    process.off('exit', this.#unmount);
    process.off('SIGTERM', endOnSignal);
    this.#unmount();
  }

  readonly #unmount = (): void => {
    execFileSync('umount', ['--lazy', this.path]);
    if (this.#image !== null) rmSync(this.#image, { force: true });
  };
}
