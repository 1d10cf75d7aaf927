/** Where pages follow the versions of an app that is developed, as `reload-worker.js` has it. */
export const RELOAD_PATH = '/.well-known/fleet/reload';
