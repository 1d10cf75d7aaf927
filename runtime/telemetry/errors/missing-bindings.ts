// How an error shows that an app's code has read a property of a binding that the release does not have. Workers of apps that
// are developed are given both, in `page-worker.js`.

/** V8's words for a property that is read from nothing. */
export const OF_UNDEFINED = 'Cannot read properties of undefined ';
/** How a bundle reads `DB` right before such a place: `env.DB.prepare`, `c.env.DB.prepare`, `env2.DB.prepare`. The group is its name. */
export const FROM_ENV = /(?<!\b(?:process|meta)\.)\benv\d*\.([A-Za-z_$][\w$]*)\.$/;
