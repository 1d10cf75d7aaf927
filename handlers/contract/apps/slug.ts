// What an app may be called. Pure values: the host imports them too.

/** Slugs that would be mistaken for a part of Cellar itself. */
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

/** What `slugPattern` asks for, in words. */
export const SLUG_RULE =
  'must have 3 to 40 lower-case letters, digits and hyphens, beginning and ending with a letter or digit';

/** Two hyphens stand between the name of a preview and the slug of its app, so no slug has them. `xn--` and its like are no slugs either. */
export const singleHyphens = /^(?!.*--)/;

/** What `singleHyphens` asks for, in words. */
export const SINGLE_HYPHENS_RULE =
  'must not have two hyphens in a row: `--` is kept for previews, <name>--<slug>';
