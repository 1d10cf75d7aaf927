// Limits of a project, besides the sizes in the host's settings.

/** Maximum files and folders of a commit, and of a release's assets. */
export const MAX_ENTRIES = 100_000;
/** Maximum bytes of a configuration: package.json or Wrangler's. */
export const CONFIG_BYTES = 2 * 2 ** 20;
/** Maximum bytes of a file that a Worker imports as a module or as text. */
export const MODULE_BYTES = 64 * 2 ** 20;
/** Maximum bytes of a Worker's additional modules, and separately of its WebAssembly and data modules. */
export const ALL_MODULES_BYTES = 128 * 2 ** 20;
/** Maximum bytes of a D1 migration. */
export const MIGRATION_BYTES = 16 * 2 ** 20;
/** Maximum bytes of `_headers`, `_redirects` or `.assetsignore`: 500 for each of the 2,100 redirects that Cloudflare allows. */
export const RULES_BYTES = 2 ** 20;
/** Maximum bytes of a release's description as JSON, with its asset rules: the host reads it whole. */
export const BUNDLE_BYTES = 2 * 2 ** 20;
/** Maximum property names and values in a release's description. Parsing as many takes 10 ms. */
export const BUNDLE_VALUES = 25_000;
/** Maximum levels of nested values in a configuration or a release's description: code that reads them is recursive. */
export const BUNDLE_DEPTH = 100;
