// Rules for the files of a folder that is deployed as a static site. Imports no server code, because the browser loads this
// file too.

/** Maximum files of one upload. */
export const FOLDER_FILES = 20_000;
/** Maximum bytes of one file, as on Cloudflare. */
export const FOLDER_FILE_BYTES = 25 * 1024 * 1024;
/** Number of hexadecimal digits of a file's hash. The hash is the beginning of its SHA-256. */
export const FILE_HASH_DIGITS = 32;

/**
 * Names of files and folders that are never served, at any depth: packages, and hidden files. These may have secrets of
 * local development or tokens of registries.
 */
const PRIVATE = /^(?:\.(?!well-known$|assetsignore$).*|node_modules)$/;
/** Matches the server's code, which a build for Cloudflare Pages puts beside its assets. */
const SERVER = /^\/_worker\.js(?:\/|$)/;

/** Whether a file or folder of this name is left out. */
export function isPrivateName(name: string): boolean {
  return PRIVATE.test(name);
}

/**
 * Returns why files cannot be deployed as a site; null when they can.
 * @param paths the paths of the files, each with a leading slash
 */
export function folderFault(paths: readonly string[]): string | null {
  if (paths.length > FOLDER_FILES)
    return `has ${paths.length} files, more than the ${FOLDER_FILES} that a site may have`;
  const secret = paths.find((path) => path.split('/').some(isPrivateName));
  if (secret !== undefined) return `has ${secret}, which is never served; leave it out`;
  const code = paths.find((path) => SERVER.test(path));
  if (code !== undefined)
    return `has ${code}, code that a static site does not run; deploy the project by git, or with cellar deploy --upload`;
  if (paths.includes('/index.html')) return null;
  const below = paths.filter((path) => /^\/[^/]+\/index\.html$/.test(path)).map((path) => path.split('/')[1]);
  const advice = below.length === 0 ? '' : `, such as ${below.slice(0, 3).join(' or ')}`;
  return `has no index.html at its top; choose the built folder${advice}`;
}
