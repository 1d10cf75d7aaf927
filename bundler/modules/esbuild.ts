// esbuild for our own code: its helper process, which would stay as long as this one, ends with the last build.
import * as esbuild from 'esbuild';

/** Builds that have begun and not ended. */
let running = 0;

/** esbuild's `build`. Whatever else of this process uses esbuild at the same time would lose its helper, too. */
export const build: typeof esbuild.build = async (options) => {
  running++;
  try {
    return await esbuild.build(options);
  } finally {
    running--;
    if (running === 0) await esbuild.stop();
  }
};
