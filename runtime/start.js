// Entry of `npm start`: turns on Node's compile cache, then runs `main.ts`. Plain JavaScript, because for TypeScript Node
// loads its type stripper, which a start with a full cache does not need.
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// With this variable, Node already uses another cache.
if (!process.env.NODE_COMPILE_CACHE) {
  // The same paths as in the settings and `layout`, which cannot be loaded yet.
  const data = process.env.RUNNER_DATA_DIR || '.cellar';
  const directory = join(data, 'compiled');
  if (isOwn(data, directory)) enableCompileCache(directory);
}
await import('./main.ts');

/**
 * Creates the directories if they are missing.
 * @returns whether only this user can write to `directory`. Otherwise another user could change the code that this one runs
 */
function isOwn(data, directory) {
  try {
    // Not `recursive`, which never ends in `/proc`. If a parent directory is missing, the first start has no cache.
    for (const path of [data, directory]) if (!existsSync(path)) mkdirSync(path, { mode: 0o700 });
    const found = lstatSync(directory);
    return found.isDirectory() && found.uid === process.geteuid() && (found.mode & 0o022) === 0;
  } catch {
    // `main.ts` starts without the cache, and reports an error of the data directory.
    return false;
  }
}
