// Rules for slugs. Pure values: the host imports them too.

/** Slugs that would be confused with parts of Cellar itself. */
export const reservedSlugs: readonly string[] = [
  'api',
  'app',
  'git',
  'www',
  'control',
  'admin',
  'cellar',
  'edge',
  'static',
  'assets',
  'mail',
  'ns1',
  'ns2',
];

/** A DNS label of 3 to 40 characters, lower case. */
export const slugPattern = /^[a-z0-9](?:[a-z0-9-]{1,38})[a-z0-9]$/;

/** Describes `slugPattern` in words. */
export const SLUG_RULE =
  'must have 3 to 40 lower-case letters, digits and hyphens, beginning and ending with a letter or digit';

/**
 * `--` separates a preview's name from its app's slug, so slugs must not have it. This also excludes `xn--` and similar
 * prefixes.
 */
export const singleHyphens = /^(?!.*--)/;

/** Describes `singleHyphens` in words. */
export const SINGLE_HYPHENS_RULE =
  'must not have two hyphens in a row: `--` is kept for previews, <name>--<slug>';
