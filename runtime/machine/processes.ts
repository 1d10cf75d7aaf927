// The table of processes, read by a thread of its own: it has as many entries as tenants have processes.
import { Worker } from 'node:worker_threads';
import type { Memory } from './memory.ts';
import type { Usage } from './proc.ts';

/** What the thread can be asked. */
export interface Questions {
  /** The container's memory, its files below `root`, and what each process has used, in their order; null for one that has gone. */
  usage: (root: string, pids: number[]) => { memory: Memory; processes: (Usage | null)[] };
  /** Processes of `uids`, and those that work below `directory` or have their home there. */
  find: (directory: string | null, uids: number[]) => number[];
}

type Answer<Name extends keyof Questions> = ReturnType<Questions[Name]>;
export type Message = {
  [Name in keyof Questions]: { name: Name; words: Parameters<Questions[Name]> };
}[keyof Questions];

let thread: Worker | null = null;
const waiting: PromiseWithResolvers<unknown>[] = [];

/** Asks the thread, which is started by the first question and answers one after another. */
export function askProcesses<Name extends keyof Questions>(
  name: Name,
  ...words: Parameters<Questions[Name]>
): Promise<Answer<Name>> {
  thread ??= startThread();
  const answer = Promise.withResolvers<unknown>();
  waiting.push(answer);
  // While an answer is due, and not longer, it keeps this process from ending.
  thread.ref();
  thread.postMessage({ name, words });
  return answer.promise as Promise<Answer<Name>>;
}

function startThread(): Worker {
  const started = new Worker(new URL('./processes-thread.ts', import.meta.url), { execArgv: [], env: {} });
  started.on('message', (answer: unknown) => {
    waiting.shift()?.resolve(answer);
    if (waiting.length === 0) started.unref();
  });
  // Nothing it does may throw. If it ended all the same, the next question starts another.
  started.on('error', (error) => {
    thread = null;
    for (const { reject } of waiting.splice(0)) reject(error);
  });
  return started;
}
