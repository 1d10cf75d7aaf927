// How much memory the commands of builds may use, and what a failure says about it.

const MB = 2 ** 20;
/** MiB that a command may use however many run at once, as far as builds may use so much. */
const LEAST_MB = 2048;

/** Returns the MiB of memory that all builds may use by default, on a machine or in a container with `bytes` of it. */
export function memoryForBuilds(bytes: number): number {
  return Math.max(LEAST_MB, Math.floor(bytes / 2 / MB));
}

/** Returns the MiB that one of `commands` that run at once may use, of `memoryMb` for all of them. */
export function memoryShare(memoryMb: number, commands: number): number {
  return Math.max(Math.min(memoryMb, LEAST_MB), Math.floor(memoryMb / commands));
}

/** Says that a command used up its memory. @param peakBytes the most that was seen; 0: nothing is known */
export function tooMuchMemory(memoryMb: number, peakBytes: number): string {
  return `a build may use ${memoryMb} MiB of memory, and that was used up${peak(peakBytes)}: the owner of this Cellar may raise RUNNER_BUILD_MEMORY_MB`;
}

/** Says what a process was probably killed for, when nobody saw why. */
export function killed(memoryMb: number, peakBytes: number): string {
  return `something killed a process of the build, mostly because memory ran out${peak(peakBytes)}; a build may use ${memoryMb} MiB (RUNNER_BUILD_MEMORY_MB)`;
}

function peak(bytes: number): string {
  return bytes === 0 ? '' : ` (the most that was seen: ${Math.ceil(bytes / MB)} MiB)`;
}
