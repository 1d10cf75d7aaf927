// The process of one job with snapshots, such as taking or verifying them, at the lowest priority and on one processor. It
// reads its job from standard input, and writes requests and its result to standard output, as lines of JSON.
import { once } from 'node:events';
import { flushCompileCache } from 'node:module';
import { createInterface } from 'node:readline';
import type { Verified } from '../../handlers/contract/admin.ts';
import { reason } from '../log.ts';
import { NoRoom, NotThere, Unusable } from './errors.ts';
import { type Looked, type LookJob, look } from './look.ts';
import { type Compared, type CompareJob, compareStorage } from './restore/compare.ts';
import { type Restored, type RestoreJob, restoreStorage } from './restore/storage.ts';
import { type Copied, type CopyJob, copyStorage } from './take/copy.ts';
import { type TakeJob, type Taken, take } from './take/take.ts';
import { type VerifyJob, verify } from './verify.ts';

export type Job = TakeJob | RestoreJob | CopyJob | VerifyJob | LookJob | CompareJob;
/** The result of a job, by its kind. */
export interface DoneOf {
  take: Taken;
  restore: Restored;
  copy: Copied;
  verify: Verified;
  look: Looked;
  compare: Compared;
}

/** A line that this process prints. */
export type OutputLine =
  | { ask: 'copy' }
  | { ask: 'hold'; app: string; isHeld: boolean }
  | { warn: string }
  | { done: DoneOf[Job['kind']] }
  | { failed: string; kind: FailureKind };

/** Why a job failed. */
type FailureKind = 'not_there' | 'unusable' | 'no_room' | 'error';

const lines = createInterface({ input: process.stdin });

function say(word: OutputLine): void {
  process.stdout.write(`${JSON.stringify(word)}\n`);
}

async function read(): Promise<unknown> {
  const [line] = (await once(lines, 'line')) as [string];
  return JSON.parse(line);
}

async function copyDatabase(): Promise<string> {
  say({ ask: 'copy' });
  return (await read()) as string;
}

async function holdBuckets(app: string, isHeld: boolean): Promise<void> {
  say({ ask: 'hold', app, isHeld });
  await read();
}

async function done(job: Job): Promise<DoneOf[Job['kind']]> {
  const host = { copyDatabase, holdBuckets, warn: (message: string) => say({ warn: message }) };
  if (job.kind === 'take') return take(job, host);
  if (job.kind === 'verify') return verify(job);
  if (job.kind === 'look') return look(job);
  if (job.kind === 'compare') return compareStorage(job, holdBuckets);
  return job.kind === 'copy' ? copyStorage(job, holdBuckets) : restoreStorage(job);
}

function failureKind(error: unknown): FailureKind {
  if (error instanceof NotThere) return 'not_there';
  if (error instanceof Unusable) return 'unusable';
  return error instanceof NoRoom ? 'no_room' : 'error';
}

process.umask(0o077);
try {
  const job = (await read()) as Job;
  // Written now, because the host ends this process with SIGKILL.
  flushCompileCache();
  say({ done: await done(job) });
} catch (error) {
  say({ failed: reason(error), kind: failureKind(error) });
}
lines.close();
