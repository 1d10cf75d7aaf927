// Node's compile cache, for programs that a test starts with another environment than its own.
const { NODE_COMPILE_CACHE } = process.env;

/** The environment variable that lets all programs of a test run share Node's compile cache; empty if it is not set. */
export const COMPILE_CACHE_ENV: Record<string, string> =
  NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
