// Recognizes errors from reading a property of a missing binding. In development, Workers get both constants in
// `page-worker.js`.

/** V8's message for reading a property of undefined. */
export const READ_OF_UNDEFINED = 'Cannot read properties of undefined ';
/**
 * Matches a bundle's code just before the position of such an error: `env.DB.`, `c.env.DB.` or `env2.DB.` before `prepare`.
 * The captured group is the binding's name, `DB`.
 */
export const FROM_ENV = /(?<!\b(?:process|meta)\.)\benv\d*\.([A-Za-z_$][\w$]*)\.$/;
