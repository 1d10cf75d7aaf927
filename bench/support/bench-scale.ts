// How much a bench does: enough for figures that hold, or just enough to show that it still runs.

/** Whether `--quick` was given. The figures of such a run say nothing. */
export const isQuick = process.argv.includes('--quick');

/** The words behind the bench's name. */
export const words = process.argv.slice(3).filter((word) => word !== '--quick');

/** So many rounds, seconds, requests: `full`, or `quick` in a quick run. */
export function effort(full: number, quick: number): number {
  return isQuick ? quick : full;
}
