// Lists files of a running Cellar.
import { spawnSync } from 'node:child_process';

/**
 * Returns the paths of all entries below a directory; empty for a missing one. An entry may be removed meanwhile, which
 * `readdirSync` would report as an error. Symbolic links are not followed.
 * @param tests conditions for `find`, such as `-type s`
 */
export function liveFiles(directory: string, ...tests: string[]): string[] {
  const words = ['-P', directory, '-mindepth', '1', ...tests];
  const { error, stdout, stderr } = spawnSync('find', words, {
    encoding: 'utf8',
    maxBuffer: 64 * 2 ** 20,
    env: { ...process.env, LC_ALL: 'C' },
  });
  const faults = stderr
    ?.split('\n')
    .filter((line) => line !== '' && !line.endsWith(': No such file or directory'));
  if (error || faults.length > 0) throw error ?? new Error(faults.join('\n'));
  return stdout.split('\n').filter((path) => path !== '');
}
