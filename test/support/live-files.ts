// Lists files of a running Cellar.
import { spawnSync } from 'node:child_process';

/**
 * Returns the paths of all entries below a directory; empty for a missing one. An entry may be removed meanwhile, which
 * `readdirSync` would report as an error. Symbolic links are not followed.
 * @param tests conditions for `find`, such as `-type s`
 */
export function liveFiles(directory: string, ...tests: string[]): string[] {
  const words = ['-P', directory, '-mindepth', '1', ...tests];
  const { stdout } = spawnSync('find', words, { encoding: 'utf8', maxBuffer: 64 * 2 ** 20 });
  return stdout.split('\n').filter((path) => path !== '');
}
