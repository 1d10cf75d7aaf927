// Installs the packages when the lock file changed since the last install, so that `npm start` and
// `npm test` work on a fresh clone. Plain JavaScript for the system's own Node: the pinned one comes with the packages.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const stamp = `${root}node_modules/.cellar-installed`;
const wanted = createHash('sha256')
  .update(readFileSync(`${root}package-lock.json`))
  .digest('hex');
const installed = existsSync(stamp) ? readFileSync(stamp, 'utf8') : '';

if (installed !== wanted) {
  console.log('cellar: installing packages (about 30 seconds, once per change of package-lock.json)');
  const { status, error } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: 'inherit',
    timeout: 10 * 60_000,
  });
  if (status !== 0) {
    console.error(`cellar: npm ci failed${error ? `: ${error.message}` : ''}; see above`);
    process.exit(1);
  }
  writeFileSync(`${stamp}.new`, wanted);
  renameSync(`${stamp}.new`, stamp);
}
