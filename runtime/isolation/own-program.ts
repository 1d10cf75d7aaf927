// Starts a program of Cellar as a process of its own, with few rights and limited memory. It exchanges messages with the
// host.
import { logRarely } from '../log.ts';
import { type Child, startChild } from '../processes/child.ts';
import { LineReader } from '../processes/lines.ts';
import { withDataLimit } from '../resources/process-limits.ts';
import { compileCache } from '../threads/compile-cache.ts';
import { asUser, dieWithParent, type User } from './users.ts';

export interface OwnProgram {
  /** Its name in the log, such as `bucket service`. */
  name: string;
  /** Path of its module. */
  program: string;
  /** The user that runs it; null: the host's own user. */
  user: User | null;
  /** Limit of its writable memory, in bytes. Node reserves 560 MiB of it, and as much again for each worker thread. */
  memoryBytes: number;
  heapMb: number;
  environment: Record<string, string>;
  /** A further command prefix, put first, such as `nice -n 10`. */
  bounds?: string[];
}

/** Starts the program. Its output goes to the log. @throws {ChildError} when it cannot start */
export async function startOwnProgram(options: OwnProgram): Promise<Child> {
  const { name, program, user, memoryBytes, heapMb, environment, bounds = [] } = options;
  const rights = user === null ? dieWithParent() : asUser(user);
  const node = [...withDataLimit(memoryBytes), process.execPath, `--max-old-space-size=${heapMb}`];
  const child = await startChild([...bounds, ...rights, ...node, '--no-warnings', program], {
    title: name,
    // The compile cache is in the data directory, which another user cannot read.
    environment: { ...(user === null ? compileCache() : {}), ...environment },
    stdin: 'ignore',
    messages: true,
  });
  // A message may fail while the process is ending.
  child.process.on('error', () => {});
  const lines = new LineReader((line) => logRarely('warn', `the ${name} says`, { line }));
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => lines.write(chunk));
  return child;
}
