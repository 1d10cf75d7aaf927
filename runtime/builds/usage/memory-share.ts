// Memory limits of build commands, and the messages about exceeding them.

const MB = 2 ** 20;
/** Minimum MiB of memory for each command, however many run at once, unless all builds together may use less. */
const LEAST_MB = 2048;

/** Returns the MiB of memory that all builds may use by default, on a machine or in a container with `bytes` of it. */
export function memoryForBuilds(bytes: number): number {
  return Math.max(LEAST_MB, Math.floor(bytes / 2 / MB));
}

/** Returns the MiB that one command may use, when `commands` run at once and share `memoryMb`. */
export function memoryShare(memoryMb: number, commands: number): number {
  return Math.max(Math.min(memoryMb, LEAST_MB), Math.floor(memoryMb / commands));
}

/** Returns the message for a command that used up its memory. @param peakBytes the peak usage; 0: unknown */
export function tooMuchMemory(memoryMb: number, peakBytes: number): string {
  return `the build needed more than the ${memoryMb} MiB of memory that it may use${peak(peakBytes)}; the operator of this Cellar can raise RUNNER_BUILD_MEMORY_MB`;
}

/** Returns the message for a process that was killed for an unknown reason. */
export function killed(memoryMb: number, peakBytes: number): string {
  return `a process of the build was killed, most likely because memory ran out${peak(peakBytes)}; a build may use at most ${memoryMb} MiB (RUNNER_BUILD_MEMORY_MB)`;
}

function peak(bytes: number): string {
  return bytes === 0 ? '' : ` (peak: ${Math.ceil(bytes / MB)} MiB)`;
}
