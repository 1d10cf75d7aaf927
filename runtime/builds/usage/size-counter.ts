// Measures directory sizes repeatedly with one child process, because a build is measured up to once a second.
import { type Job, startJob } from '../../processes/child.ts';
import { LineReader } from '../../processes/lines.ts';
import { limited } from '../../resources/limited.ts';

/** Timeout for one count, in ms. */
const TIMEOUT_MS = 60_000;
/**
 * A shell loop. For each line that it reads, prints the KiB of each directory, then the number of files of each. A line with
 * `=` and du's exit code follows each of the two lists.
 */
const LOOP = 'while read -r _; do du -s -k -- "$@"; echo "= $?"; du -s --inodes -- "$@"; echo "= $?"; done';

/** The usage of each directory, in their order. */
export interface Usage {
  kilobytes: number[];
  files: number[];
  /** False when a file disappeared or was unreadable during the count, or when the count did not finish. */
  complete: boolean;
}

export class SizeCounter {
  readonly #paths: string[];
  #child: Job | null = null;
  #over = false;

  constructor(paths: string[]) {
    this.#paths = paths;
  }

  /** Counts once; calls must not overlap. Incomplete on a timeout or the child's exit. @throws {ChildError} at a failed start */
  async count(): Promise<Usage> {
    this.#child ??= await startJob([...limited(), '/bin/sh', '-c', LOOP, 'sh', ...this.#paths], {
      title: 'du',
    });
    const child = this.#child;
    if (this.#over) child.end();
    const counts: { numbers: number[]; code: string }[] = [];
    let numbers: number[] = [];
    const counted = Promise.withResolvers<void>();
    const lines = new LineReader((line) => {
      if (!line.startsWith('= ')) return void numbers.push(Number.parseInt(line, 10));
      counts.push({ numbers, code: line.slice(2) });
      numbers = [];
      if (counts.length === 2) counted.resolve();
    });
    const take = (chunk: Buffer) => lines.write(chunk);
    child.stdout.on('data', take);
    child.stderr.resume();
    child.stdin.write('\n');
    const deadline = setTimeout(child.end, TIMEOUT_MS);
    const isThere = await Promise.race([counted.promise.then(() => true), child.exited.then(() => false)]);
    clearTimeout(deadline);
    child.stdout.off('data', take);
    if (!isThere) this.#child = null;
    const [sizes, inodes] = counts;
    return {
      kilobytes: sizes?.numbers ?? [],
      files: inodes?.numbers ?? [],
      complete: sizes?.code === '0' && inodes?.code === '0',
    };
  }

  /** Ends the child, and a running count. */
  end(): void {
    this.#over = true;
    this.#child?.end();
  }
}
