// Jobs for tests of worker threads: some work, some fail or never end.
import { threadId } from 'node:worker_threads';
import Database from 'better-sqlite3';
import { ChildError } from '../../runtime/processes/child.ts';

export const whichThread = (): number => threadId;
export const add = (a: number, b: number): number => a + b;

export function fail(message: string, exitCode: number): never {
  throw new ChildError(message, exitCode);
}

/** Fails with fields that cannot be copied to another thread. */
export function failUncopied(): never {
  throw Object.assign(new ChildError('no such thing', 7), { retry: () => {}, kind: Symbol('kind') });
}

export function spin(): never {
  for (;;);
}

export function exhaustMemory(): never {
  const all: object[] = [];
  for (;;) all.push(new Array(10_000).fill(all));
}

export function waitFor(signal: Int32Array): void {
  Atomics.wait(signal, 0, 0, 20_000);
}

/** Makes the thread fail after the job has ended, when `signal` is raised. */
export function endLater(signal: Int32Array): number {
  setImmediate(() => {
    Atomics.wait(signal, 0, 0, 20_000);
    throw new Error('thrown after the end of the job');
  });
  return threadId;
}

/** Locks a database during one long statement. */
export function lockDatabase(path: string): void {
  const database = new Database(path);
  database.exec('BEGIN IMMEDIATE');
  database
    .prepare(
      'WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2e7) SELECT sum(n) FROM n',
    )
    .get();
}
