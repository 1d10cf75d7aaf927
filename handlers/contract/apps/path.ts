// Validates paths of files that are committed through the API.
import { byteLength } from '../text.ts';

const PATH_BYTES = 1024;
const NAME_BYTES = 255;
/** Characters that HFS+ ignores: names that differ only in them are the same file. */
const IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

/** Returns why `path` is not valid in a repository, or null when it is. */
export function pathFault(path: string): string | null {
  if (path === '') return 'must not be empty';
  if (!path.isWellFormed()) return 'must be valid Unicode';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern refuses them
  if (/[\u0000-\u001f\u007f\\]/.test(path)) return 'must not have control characters or backslashes';
  if (path.startsWith('/')) return 'must be relative to the root of the repository';
  if (byteLength(path) > PATH_BYTES) return `must have at most ${PATH_BYTES} bytes`;
  for (const name of path.split('/')) {
    if (name === '') return 'must not have an empty part between two slashes';
    if (name === '.' || name === '..') return 'must not have a part . or ..';
    if (byteLength(name) > NAME_BYTES) return `must have at most ${NAME_BYTES} bytes in each part`;
    if (isGitDirectory(name))
      return 'must not lie in .git, or in a folder whose name a file system treats as .git';
  }
  return null;
}

/**
 * Returns whether a file system takes a name for `.git`. NTFS ends a name at a colon, drops trailing dots and spaces, and
 * has the short name `git~1`.
 */
function isGitDirectory(name: string): boolean {
  const plain = name
    .replace(IGNORED, '')
    .toLowerCase()
    .split(':')[0]!
    .replace(/[. ]+$/, '');
  return plain === '.git' || plain === 'git~1';
}
