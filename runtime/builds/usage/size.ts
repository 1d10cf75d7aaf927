// Limits the disk usage of a build, and refuses files of other users.
import { relative } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { BuildFailure } from '../../../bundler/failure.ts';
import { freeMegabytes } from '../../disk/disk.ts';
import { openTree } from '../../disk/remove.ts';
import type { User } from '../../isolation/users.ts';
import { runChild } from '../../processes/child.ts';
import { limited } from '../../resources/limited.ts';
import { SizeCounter, type Usage } from './size-counter.ts';

const TIMEOUT_MS = 60_000;

/**
 * Maximum files and folders in each directory of a build; a commit may have a fifth. Empty files use inodes, but no bytes.
 */
const MAX_FILES = 500_000;
/** Start of the message of a failure for lack of disk space. */
const DISK_HAS = 'the disk of this machine has';
/** Minimum pause between two readings of the disk's free space, in ms. */
const DISK_PAUSE_MS = 200;
/** Minimum pause between two counts of all files, in ms. It is longer, because a count is expensive. */
const SIZE_PAUSE_MS = 1000;
/** A pause is at least this many times as long as the check before it. */
const PAUSE_FACTOR = 10;

/** The disk limits of a build. */
export interface SizeLimits {
  /** All directories that the build writes to. */
  directories: { path: string; what: string; megabytes: number }[];
  /** Maximum files and folders of each directory. */
  files: number;
  /** MiB of the disk that must stay free. */
  freeMb: number;
}

/**
 * Returns the disk limits of a build.
 * @param scratch the build's own directory
 * @param cache the app's cache, which its builds share
 */
export function sizeLimits(
  scratch: string,
  cache: string,
  { worktreeMb, cacheMb, floorMb }: { worktreeMb: number; cacheMb: number; floorMb: number },
): SizeLimits {
  const directories = [
    { path: scratch, what: 'the build', megabytes: worktreeMb },
    { path: cache, what: 'the cache of the build', megabytes: cacheMb + worktreeMb },
  ];
  return { directories, files: MAX_FILES, freeMb: floorMb };
}

/** Returns whether the disk has space for a build that may use `megabytes`, plus the `floorMb` MiB that must stay free. */
export function hasDisk(directory: string, megabytes: number, floorMb: number): boolean {
  return freeMegabytes(directory) >= megabytes + floorMb;
}

/**
 * Refuses to start a build that could fill the disk.
 * @param megabytes that the build may use
 * @param floorMb MiB that must stay free
 * @throws {BuildFailure}
 */
export function requireDisk(directory: string, megabytes: number, floorMb: number): void {
  if (hasDisk(directory, megabytes, floorMb)) return;
  throw new BuildFailure(
    `${hasFree(freeMegabytes(directory))}. A build may need ${megabytes} (RUNNER_BUILD_MAX_MB), and ${floorMb} must stay free (RUNNER_DISK_FLOOR_MB): free disk space, or lower one of these settings`,
  );
}

/** Whether a build failed for lack of free disk space. @param failure the message of its error */
export function isOutOfDisk(failure: string): boolean {
  return failure.startsWith(DISK_HAS);
}

/**
 * Polls a build's disk usage while a command runs.
 * @throws {BuildFailure} as soon as it exceeds a limit
 * @throws the signal's reason once it is aborted
 */
export async function watchSize(limits: SizeLimits, signal: AbortSignal): Promise<void> {
  const counter = new SizeCounter(limits.directories.map(({ path }) => path));
  const look = async () => requireWithin(limits, await counter.count());
  const lookAtDisk = async () => {
    const free = freeMegabytes(limits.directories[0]!.path);
    if (free < limits.freeMb)
      throw new BuildFailure(
        `${hasFree(free)}, and ${limits.freeMb} MiB must stay free (RUNNER_DISK_FLOOR_MB)`,
      );
  };
  const looks = [repeat(look, SIZE_PAUSE_MS, signal), repeat(lookAtDisk, DISK_PAUSE_MS, signal)];
  await Promise.race(looks).finally(() => counter.end());
}

/**
 * Refuses a build that exceeds its limits.
 * @throws {BuildFailure}; the signal's reason once it is aborted
 */
export async function checkSize(limits: SizeLimits, signal: AbortSignal): Promise<void> {
  const counter = new SizeCounter(limits.directories.map(({ path }) => path));
  const giveUp = () => counter.end();
  signal.addEventListener('abort', giveUp);
  try {
    let usage = await counter.count();
    if (!usage.complete && !signal.aborted) {
      for (const { path } of limits.directories) await openTree(path);
      usage = await counter.count();
    }
    signal.throwIfAborted();
    requireWithin(limits, usage);
  } finally {
    signal.removeEventListener('abort', giveUp);
    counter.end();
  }
}

/**
 * Refuses a worktree with files of another owner. A build can hard-link a file that it may not read; the bundler, which runs as
 * the host, could read it.
 * @throws {BuildFailure} naming the first such file
 */
export async function checkOwner(directory: string, { uid }: User, signal: AbortSignal): Promise<void> {
  const search = [directory, '!', '-uid', String(uid), '-print', '-quit'];
  const { output } = await runChild([...limited(), 'find', ...search], { timeoutMs: TIMEOUT_MS, signal });
  if (output.length === 0) return;
  throw new BuildFailure(
    `${relative(directory, output.toString('utf8').trimEnd())} is a link to a file that is not the build's own`,
  );
}

function requireWithin(limits: SizeLimits, { kilobytes, files }: Usage): void {
  for (const [n, { what, megabytes }] of limits.directories.entries()) {
    const taken = Math.ceil(kilobytes[n]! / 1024);
    if (taken > megabytes)
      throw new BuildFailure(`${what} has ${taken} MiB, more than the ${megabytes} MiB it may use`);
    if (files[n]! > limits.files)
      throw new BuildFailure(
        `${what} has ${files[n]} files and folders, more than the ${limits.files} it may have`,
      );
  }
}

function hasFree(megabytes: number): string {
  return `${DISK_HAS} ${megabytes} MiB free`;
}

/** Calls `look` after each pause, until it throws or the signal is aborted. */
async function repeat(look: () => Promise<void>, pauseMs: number, signal: AbortSignal): Promise<never> {
  for (let tookMs = 0; ; ) {
    await wait(Math.max(pauseMs, PAUSE_FACTOR * tookMs), undefined, { signal });
    const began = performance.now();
    await look();
    tookMs = performance.now() - began;
  }
}
