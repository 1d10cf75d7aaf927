// Measures directories with `du`, in a child process of low priority: a build decides how many files one holds.
import { ChildError, runChild } from '../processes/child.ts';
import { limited } from '../resources/limited.ts';

const TIMEOUT_MS = 60_000;
const KB_IN_MB = 1024;

/**
 * Returns the MiB of directories, by path. Leaves out missing ones, and those not counted within a minute; all of them when
 * `signal` aborts. A file with several links counts once.
 */
export async function directorySizes(paths: string[], signal: AbortSignal): Promise<Map<string, number>> {
  const words = [...limited(), 'nice', '-n', '19', 'du', '-sk', '--', ...paths];
  const output = await runChild(words, { title: 'du', timeoutMs: TIMEOUT_MS, signal }).then(
    ({ output }) => output.toString('utf8'),
    // Files may vanish while `du` counts: it reports an error, and continues.
    (error: unknown) => (error instanceof ChildError ? error.output : ''),
  );
  const lines = output.split('\n').map((line) => /^(\d+)\t(.*)$/.exec(line));
  return new Map(lines.flatMap((found) => (found ? [[found[2]!, Number(found[1]) / KB_IN_MB]] : [])));
}
