// What a project may have at most, beside the sizes that the host's settings give.

/** Files and folders of a commit, and of a release's assets. */
export const MAX_ENTRIES = 100_000;

/** Bytes of each file of rules for the assets, such as `_headers`. */
export const MAX_RULES_BYTES = 4 * 2 ** 20;
