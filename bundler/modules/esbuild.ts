// Runs esbuild for our own code. Its helper process, which would live as long as this one, ends after the last build.
import * as esbuild from 'esbuild';

/** Number of builds in progress. */
let running = 0;

/**
 * Runs esbuild's `build`. Nothing else in this process may use esbuild meanwhile: there is one helper process, and the last build
 * ends it.
 */
export const build: typeof esbuild.build = async (options) => {
  running++;
  try {
    return await esbuild.build(options);
  } finally {
    running--;
    if (running === 0) await esbuild.stop();
  }
};
