// Nothing from outside a project's tree may end up in its release, whatever its symbolic links say: the host's
// own files are readable to the bundler.
import { realpathSync } from 'node:fs';
import { relative, resolve, sep } from 'node:path';
import { BuildFailure } from './failure.ts';

/** Whether `path`, its symbolic links followed, lies in `root` (a real path). False for a dangling link. */
export function isInside(root: string, path: string): boolean {
  return realInside(root, path) !== null;
}

/** `path` with its symbolic links followed; `null` when that lies outside `root` (a real path), or is not there. */
export function realInside(root: string, path: string): string | null {
  try {
    const real = realpathSync.native(path);
    return real === root || real.startsWith(root + sep) ? real : null;
  } catch {
    return null;
  }
}

/**
 * The absolute path of something a project's configuration names, which must be there and in the tree.
 * @param root real path of the project
 * @param from directory that a relative `path` starts at
 * @param what names the thing in the message, such as `assets.directory`
 * @throws {BuildFailure} when it is not there, or lies outside
 */
export function insidePath(root: string, from: string, path: string, what: string): string {
  const full = resolve(from, path);
  if (full !== root && !full.startsWith(root + sep)) {
    throw new BuildFailure(`${what}: ${path} lies outside the project`);
  }
  let real: string;
  try {
    real = realpathSync(full);
  } catch {
    throw new BuildFailure(`${what}: there is no ${show(root, full)}`);
  }
  if (!isInside(root, real))
    throw new BuildFailure(`${what}: ${show(root, full)} is a link that leaves the project`);
  return full;
}

/** A path as its author knows it: relative to the project. */
export function show(root: string, path: string): string {
  return relative(root, path) || '.';
}
