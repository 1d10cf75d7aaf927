// Runs esbuild for our own code. Stops esbuild's helper process after the last build: otherwise it would run until this
// process ends.
import * as esbuild from 'esbuild';

/** Number of builds in progress. */
let running = 0;

/**
 * Runs esbuild's `build`. Other code of this process must not use esbuild during such builds: all share one helper process,
 * and the last build stops it.
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
