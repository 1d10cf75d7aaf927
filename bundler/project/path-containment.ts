// Keeps files from outside a project out of its release, also behind symbolic links. This is necessary because the bundler
// can read the host's own files.
import { lstatSync, realpathSync, statSync } from 'node:fs';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { BuildFailure } from '../failure.ts';

/** Whether `path`, its symbolic links followed, lies in `root` (a real path). False for a dangling link. */
export function isInside(root: string, path: string): boolean {
  return realInside(root, path) !== null;
}

/** Resolves the symbolic links of `path`; `null` when the result lies outside `root` (a real path), or does not exist. */
export function realInside(root: string, path: string): string | null {
  try {
    const real = realpathSync.native(path);
    return real === root || real.startsWith(root + sep) ? real : null;
  } catch {
    return null;
  }
}

/**
 * Returns the absolute path of something a project's configuration names. It must exist inside the project.
 * @param root real path of the project
 * @param from directory that a relative `path` starts at
 * @param what names the thing in the message, such as `assets.directory`
 * @throws {BuildFailure} when it does not exist, or lies outside
 */
export function insidePath(root: string, from: string, path: string, what: string): string {
  const full = pathWithin(root, from, path, what);
  if (!isThere(root, full))
    throw new BuildFailure(
      `${what}: there is no ${show(root, full)}: check the path, and that it is committed or built${buildHint(root, from, full)}`,
    );
  return full;
}

/** Where next-on-pages writes a site. Its build command is a setting in Cloudflare's dashboard, so Cellar cannot read it. */
const NEXT_ON_PAGES = join('.vercel', 'output', 'static');

/** Returns advice for the error message on how to build the missing path; empty without advice. */
function buildHint(root: string, from: string, missing: string): string {
  if (missing.endsWith(sep + NEXT_ON_PAGES))
    return ". next-on-pages writes it: set the app's build_command to `npx @cloudflare/next-on-pages@1`";
  const at = packageOf(root, from, missing);
  if (at === null) return '';
  const folder = relative(from, at);
  return `. ${folder} is a package that was not built: set the app's build_command, for example to \`cd ${folder} && npm ci && npm run build\``;
}

/** Returns the nearest folder with a package.json above `path` and below `from`; `null` without one. */
export function packageOf(root: string, from: string, path: string): string | null {
  for (let at = dirname(path); at.startsWith(from + sep); at = dirname(at))
    if (isThere(root, join(at, 'package.json'))) return at;
  return null;
}

/**
 * Returns the absolute path of something a project's configuration names. Does not look at the disk.
 * @throws {BuildFailure} when the path, as written, lies outside
 */
export function pathWithin(root: string, from: string, path: string, what: string): string {
  const full = resolve(from, path);
  if (full !== root && !full.startsWith(root + sep))
    throw new BuildFailure(`${what}: ${path} lies outside the project`);
  return full;
}

/**
 * Returns whether a path exists in the project. The error for a link to a path outside does not reveal whether that
 * path exists.
 * @throws {BuildFailure} for a link that leaves the project, or leads nowhere
 */
export function isThere(root: string, path: string): boolean {
  let reached = root;
  for (const name of relative(root, path).split(sep)) {
    if (!statSync(reached).isDirectory()) return false;
    reached = join(reached, name);
    if (!lstatSync(reached, { throwIfNoEntry: false })) return false;
    if (!isInside(root, reached))
      throw new BuildFailure(`${show(root, reached)} is a link that leaves the project, or leads nowhere`);
  }
  return true;
}

/** Returns a path for messages: relative to the repository at `root`. */
export function show(root: string, path: string): string {
  return relative(root, path) || '.';
}
