// How a process is started that reads an app's files. They may be the work of an attacker: it runs as the app's user, with little
// memory, and ends with the host.
import { readFileSync } from 'node:fs';
import { withDataLimit } from './process-limits.ts';
import { asUser, dieWithParent, type User } from './users.ts';

export interface ReaderOptions {
  /** Whose the files are; `null`: the host's own user. */
  user: User | null;
  /** Memory that it may write to: Node reserves 560 MiB of it and uses 10. */
  memoryBytes: number;
  /** MiB of JavaScript objects. Default: as Node has it. */
  heapMb?: number;
  /** What its program finds in `process.argv[1]`. Default: nothing. */
  argument?: string;
}

/** The text of a reader's program, which imports nothing but Node's own modules. It is read once, at the host's start. */
export function readerProgram(url: URL): string {
  return readFileSync(url, 'utf8');
}

/** The words that start a reader. Its program is among them: users of apps can read none of Cellar's files. */
export function readerWords(
  program: string,
  { user, memoryBytes, heapMb, argument }: ReaderOptions,
): string[] {
  return [
    ...(user === null ? dieWithParent() : asUser(user)),
    ...withDataLimit(memoryBytes),
    process.execPath,
    '--no-warnings',
    ...(heapMb === undefined ? [] : [`--max-old-space-size=${heapMb}`]),
    '--input-type=module',
    `--eval=${program}`,
    ...(argument === undefined ? [] : ['--', argument]),
  ];
}
