// What a project may have at most, beside the sizes that the host's settings give.

/** Files and folders of a commit, and of a release's assets. */
export const MAX_ENTRIES = 100_000;
/** Bytes of a configuration: of package.json, or of Wrangler. */
export const CONFIG_BYTES = 2 * 2 ** 20;
/** Bytes of a file that a Worker imports as a module or as text. */
export const MODULE_BYTES = 64 * 2 ** 20;
/** Bytes of all files of a Worker that stay modules of their own. Many links may lead to one file, which is copied for each. */
export const ALL_MODULES_BYTES = 128 * 2 ** 20;
/** Bytes of a D1 migration. */
export const MIGRATION_BYTES = 16 * 2 ** 20;
/** Bytes of `_headers`, `_redirects` and `.assetsignore` each. Cloudflare takes 2,100 redirects and 100 rules of headers. */
export const RULES_BYTES = 256 * 1024;
/** Bytes of what describes a release, as JSON, the rules of its assets among it: the host reads it whole. */
export const BUNDLE_BYTES = 2 * 2 ** 20;
/** Names and values in it: 8 MiB of empty lists would take the host a third of a second to read, so many of them 10 ms. */
export const BUNDLE_VALUES = 25_000;
