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

/** The name of a dispatch namespace or of a script in one. */
export const DISPATCH_NAME = /^[A-Za-z0-9_-]{1,63}$/;

/** Describes `DISPATCH_NAME` in words. */
export const DISPATCH_NAME_RULE = 'must have 1 to 63 letters, digits, underscores and hyphens';

/** Matches the slug of a script of a dispatch namespace, and `<preview>--<slug>` of the script's previews. */
const SCRIPT_SLUG = /(?:^|--)dispatched-[0-9a-f]{26}$/;

/** Whether an app of this slug is a script of a dispatch namespace. Such an app has no hostname. */
export function isDispatched(slug: string): boolean {
  return SCRIPT_SLUG.test(slug);
}

/** Returns the text whose SHA-256 identifies a script. @param owner an account's id */
export function scriptKey(owner: string, namespace: string, script: string): string {
  return `${owner}/${namespace}/${script}`;
}

/** Returns the slug of a script. @param hash the SHA-256 of its `scriptKey`, in hexadecimal */
export function slugOfScript(hash: string): string {
  return `dispatched-${hash.slice(0, 26)}`;
}

/** Returns the name by which a host finds a script. The name is not in lower case, so no request can have it as hostname. */
export function nameOfScript(slug: string): string {
  return `SCRIPT ${slug}`;
}
