// The thread that reads /proc.
import { parentPort } from 'node:worker_threads';
import { readMemory } from './memory.ts';
import { findProcesses, usage } from './proc.ts';
import type { Message, Questions } from './processes.ts';

const answers: Questions = {
  usage: (root, pids) => ({ memory: readMemory(root), processes: pids.map(usage) }),
  find: findProcesses,
};

parentPort!.on('message', ({ name, words }: Message) => {
  const answer = answers[name] as (...words: unknown[]) => unknown;
  parentPort!.postMessage(answer(...words));
});
