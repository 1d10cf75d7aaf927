// The scale of a bench: enough for reliable figures, or just enough to show that it still runs.

/** Whether `--quick` was given. The figures of such a run mean nothing. */
export const isQuick = process.argv.includes('--quick');

/** The arguments after the bench's name. */
export const words = process.argv.slice(3).filter((word) => word !== '--quick');

/** Returns a number of rounds, seconds or requests: `full`, or `quick` in a quick run. */
export function effort(full: number, quick: number): number {
  return isQuick ? quick : full;
}
