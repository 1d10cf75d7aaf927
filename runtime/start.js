// What `npm start` runs: `main.ts`, as an earlier start has compiled it. Plain JavaScript, because for TypeScript Node would
// load here what strips types, which nothing needs when the compiled code is there.
import { existsSync, lstatSync, mkdirSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';

// Node's own variable may name another place; then Node has begun to use that already.
if (!process.env.NODE_COMPILE_CACHE) {
  // As the settings and `layout` have them, neither of which can be loaded yet.
  const data = process.env.RUNNER_DATA_DIR || '.cellar';
  const directory = join(data, 'compiled');
  if (isOwn(data, directory)) enableCompileCache(directory);
}
await import('./main.ts');

/** Makes a directory of the data directory unless it is there. @returns whether nobody but this user can have written into it: what it has is run */
function isOwn(data, directory) {
  try {
    // Not `recursive`, which never ends in `/proc`. Where directories above are missing, the first start goes on without it.
    for (const path of [data, directory]) if (!existsSync(path)) mkdirSync(path, { mode: 0o700 });
    const found = lstatSync(directory);
    return found.isDirectory() && found.uid === process.geteuid() && (found.mode & 0o022) === 0;
  } catch {
    // The start goes on without it, and says what is wrong with the data directory.
    return false;
  }
}
