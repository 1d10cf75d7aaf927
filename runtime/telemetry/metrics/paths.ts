// Folds paths to kinds of pages: a segment that names one user, order or file becomes a placeholder. This limits the number
// of paths, and keeps personal names and secret links out of storage.

/** Maximum segments that are kept; deeper ones become one `…`. */
const SEGMENTS_MAX = 8;
/** Maximum characters of a segment. A longer one becomes `:long`, because people do not choose such names. */
const SEGMENT_LENGTH = 64;
const EXTENSION = /\.[a-z][a-z0-9]{0,4}$/i;
/** Matches numbers, dates, versions and coordinates. */
const NUMBER = /^\d[\d.,:_+-]*$/;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
/** Matches a prefix that people chose, such as `usr_`, before a generated part. */
const WORDS = /^[a-z][a-z._-]{0,31}$/i;
const EMAIL = /@|%40/;

/** Maximum cached paths. Over it, the cache is emptied. */
const REMEMBERED = 2_000;
const known = new Map<string, string>();

/** Replaces specific segments: `/users/42/orders/9f3c2a71` becomes `/users/:id/orders/:id`. */
export function foldPath(path: string): string {
  let folded = known.get(path);
  if (folded !== undefined) return folded;
  folded = fold(path);
  if (known.size >= REMEMBERED) known.clear();
  known.set(path, folded);
  return folded;
}

function fold(path: string): string {
  const segments = path.split('/', SEGMENTS_MAX + 2);
  const deeper = segments.length > SEGMENTS_MAX + 1;
  const folded = segments.slice(0, SEGMENTS_MAX + 1).map(foldSegment);
  return `${folded.join('/')}${deeper ? '/…' : ''}`;
}

function foldSegment(segment: string): string {
  if (segment === '') return segment;
  if (EMAIL.test(segment)) return ':email';
  if (UUID.test(segment)) return ':id';
  if (segment.length > SEGMENT_LENGTH) return ':long';
  const extension = NUMBER.test(segment) ? '' : (EXTENSION.exec(segment)?.[0] ?? '');
  const name = segment.slice(0, segment.length - extension.length);
  if (NUMBER.test(name)) return `:id${extension}`;
  // Keeps the prefix of names such as `usr_01H8XGJWBWBAQ4`, `index-BxY1z2Ab` and `app.3f2a9b1c`.
  const cut = Math.max(name.lastIndexOf('_'), name.lastIndexOf('-'), name.lastIndexOf('.')) + 1;
  if (WORDS.test(name.slice(0, cut)) && isRandom(name.slice(cut)))
    return `${name.slice(0, cut)}:id${extension}`;
  if (isRandom(name)) return `:id${extension}`;
  return segment;
}

/** Whether a name looks generated: long enough, with digits among the letters. */
function isRandom(text: string): boolean {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return false;
  if (/^[0-9a-f]{8,}$/i.test(text)) return /\d/.test(text);
  const longest = Math.max(...text.split(/[-_]/).map(({ length }) => length));
  if (longest < 8 || !/\d/.test(text) || !/[a-z]/i.test(text)) return false;
  return longest >= 16 || (/[a-z]/.test(text) && /[A-Z]/.test(text));
}
