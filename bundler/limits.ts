// What a project may have at most, beside the sizes that the host's settings give.

/** Files and folders of a commit, and of a release's assets. */
export const MAX_ENTRIES = 100_000;
