// Mounts a small disk for a test. Needs root, and a kernel that allows the mount.
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

/** `tmpfs` is in memory. `ext4` is in an image file beside the mount point; there a new directory takes space too. */
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
   * Creates the directory `path` and mounts a disk there.
   * @param inodes maximum files of a `tmpfs`; 0: no limit
   * @returns null where that is not possible; then skip the test with `SmallDisk.why`
   */
  static mount(path: string, megabytes: number, kind: DiskKind = 'tmpfs', inodes = 0): SmallDisk | null {
    mkdirSync(path, { recursive: true });
    const image = kind === 'ext4' ? `${path}.image` : null;
    if (image !== null) {
      closeSync(openSync(image, 'w'));
      truncateSync(image, megabytes * 2 ** 20);
      // No blocks are reserved for root.
      const made = spawnSync('mkfs.ext4', ['-q', '-m', '0', image]);
      if (made.status !== 0) return null;
    }
    // With a commit interval of five minutes, only synced data reaches the image during a test.
    const words =
      image === null
        ? ['-t', 'tmpfs', '-o', `size=${megabytes}m,nr_inodes=${inodes}`, 'tmpfs']
        : ['-o', 'loop,commit=300', image];
    return SmallDisk.#mount(path, image, words);
  }

  static #mount(path: string, image: string | null, words: string[]): SmallDisk | null {
    if (spawnSync('mount', [...words, path]).status !== 0) return null;
    // Other users may traverse this directory, as is usual for the parent of a data directory.
    chmodSync(path, 0o711);
    const disk = new SmallDisk(path, image);
    // Unmounts also when the test process is ended early.
    process.once('exit', disk.#unmount);
    process.once('SIGTERM', endOnSignal);
    return disk;
  }

  static readonly why = 'no disk can be mounted here';

  /** Mounts at `path` the state of this `ext4` disk after a power cut now: only synced data. */
  afterPowerCut(path: string): SmallDisk {
    mkdirSync(path, { recursive: true });
    const image = `${path}.image`;
    copyFileSync(this.#image!, image);
    return SmallDisk.#mount(path, image, ['-o', 'loop', image])!;
  }

  get freeMb(): number {
    const { bavail, bsize } = statfsSync(this.path);
    return (bavail * bsize) / 2 ** 20;
  }

  get #filler(): string {
    return join(this.path, 'filling');
  }

  /** Fills the disk until `leaveMb` MiB are free; 0 fills it completely. */
  fill(leaveMb = 0): void {
    const file = openSync(this.#filler, 'a', 0o600);
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

  /** Frees the space that `fill` took. */
  clear(): void {
    rmSync(this.#filler, { force: true });
  }

  /** Unmounts the disk lazily, also while it is in use. */
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
