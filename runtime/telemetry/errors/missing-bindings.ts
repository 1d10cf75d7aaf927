// Recognizes errors from reading a property of a missing binding. Workers in development get both patterns, in
// `page-worker.js`.

/** V8's message for reading a property of undefined. */
export const READ_OF_UNDEFINED = 'Cannot read properties of undefined ';
/**
 * A bundle's code that reads `DB` before such a place: `env.DB.prepare`, `c.env.DB.prepare`, `env2.DB.prepare`. The group is
 * its name.
 */
export const FROM_ENV = /(?<!\b(?:process|meta)\.)\benv\d*\.([A-Za-z_$][\w$]*)\.$/;
