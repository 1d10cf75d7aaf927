// Starts a program through a shell, which limits its memory first.
import { type Job, startJob } from './child.ts';
import { quote } from './shell.ts';

export interface Program {
  /** The path of the program and its arguments. Its standard input is empty. */
  words: string[];
  cwd: string;
  /** The whole environment. Names are shell words: letters, digits and `_`. */
  environment: Record<string, string>;
  /**
   * Texts that the program may read as files, at `/proc/self/fd/4` and the numbers after it. They are in memory, and in no
   * directory. At most 6, because shells open only descriptors up to 9. Default: none.
   */
  texts?: string[];
  /** Limit of writable memory (RLIMIT_DATA), in bytes: an allocation beyond it fails. */
  dataLimitBytes: number;
}

/**
 * Starts a program whose output and descriptor 3 are pipes. A program that cannot be run ends at once, with the reason in
 * its output.
 * @param onStart called with the shell before it becomes the program
 * @throws {ChildError} when no process can be started
 */
export async function startProgram(
  { words, cwd, environment, texts = [], dataLimitBytes }: Program,
  onStart: (shell: Job) => void,
): Promise<Job> {
  const child = await startJob(['/bin/sh'], { environment: {}, channel: true, urgent: true });
  onStart(child);
  const steps = [
    `ulimit -d ${Math.ceil(dataLimitBytes / 1024)}`,
    `cd ${quote(cwd)}`,
    ...texts.flatMap(textSteps),
    // Some shells set these variables themselves.
    'unset PWD OLDPWD SHLVL',
    // Exported, not passed as arguments of `env`: every user of the machine can read arguments.
    ...Object.entries(environment).map(([name, value]) => `export ${name}=${quote(value)}`),
    `exec ${words.map(quote).join(' ')} < /dev/null`,
  ];
  child.stdin.end(`${steps.join(' && ')}\n`);
  return child;
}

/** The descriptor of the first text: 3 is a pipe. */
const FIRST_TEXT = 4;

/** Returns the path at which a program of `startProgram` reads one of its texts. */
export function textPath(index: number): string {
  return `/proc/self/fd/${FIRST_TEXT + index}`;
}

/**
 * Returns the shell commands that open a text as a file. It is a regular file: workerd relies on a file's size, and a
 * here-document may be a pipe, without a size. The file loses its name before the text is written, so a killed shell leaves
 * no text.
 */
function textSteps(text: string, index: number): string[] {
  return [
    'text=$(mktemp /dev/shm/cellar-XXXXXX)',
    `exec ${FIRST_TEXT + index}< "$text"`,
    'rm "$text"',
    `printf %s ${quote(text)} > ${textPath(index)}`,
    // The program may run as another user. Nobody else can find the file.
    `chmod 444 ${textPath(index)}`,
  ];
}
