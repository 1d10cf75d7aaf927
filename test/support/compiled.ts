// For programs that tests run with an environment of their own.
const { NODE_COMPILE_CACHE } = process.env;

/** Has Node compile what such a program loads once in a whole run of the tests. */
export const COMPILED: Record<string, string> =
  NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
