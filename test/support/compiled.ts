// For programs that tests start with their own environment.
const { NODE_COMPILE_CACHE } = process.env;

/** The variable that shares Node's compile cache between all programs of a test run. */
export const COMPILE_CACHE_ENV: Record<string, string> =
  NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
