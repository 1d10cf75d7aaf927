// Starts a program through a shell, which limits its memory first.
import { type Job, startJob } from './child.ts';
import { quote } from './shell.ts';

/** A program to start. */
export interface Program {
  /** The path of the program and its arguments. It reads nothing. */
  words: string[];
  cwd: string;
  /** The whole environment. Names are shell words: letters, digits and `_`. */
  environment: Record<string, string>;
  /** Limit of writable memory (RLIMIT_DATA), in bytes: an allocation beyond it fails. */
  dataLimitBytes: number;
}

/**
 * Starts a program whose output and descriptor 3 are pipes. A program that cannot be run ends at once, with the reason in its
 * output.
 * @param onStart called with the shell before it becomes the program
 * @throws {ChildError} when no process can be started
 */
export async function startProgram(
  { words, cwd, environment, dataLimitBytes }: Program,
  onStart: (shell: Job) => void,
): Promise<Job> {
  const child = await startJob(['/bin/sh'], { environment: {}, channel: true, urgent: true });
  onStart(child);
  const steps = [
    `ulimit -d ${Math.ceil(dataLimitBytes / 1024)}`,
    `cd ${quote(cwd)}`,
    // Some shells set these variables themselves.
    'unset PWD OLDPWD SHLVL',
    // Not as arguments of `env`, which every user could read.
    ...Object.entries(environment).map(([name, value]) => `export ${name}=${quote(value)}`),
    `exec ${words.map(quote).join(' ')} < /dev/null`,
  ];
  child.stdin.end(`${steps.join(' && ')}\n`);
  return child;
}
