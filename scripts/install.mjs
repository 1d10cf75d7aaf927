// Installs the packages if the lock file has changed since the last install, so that `npm start` and `npm test` work on a
// fresh clone. Plain JavaScript, because the system's Node runs it: the pinned version of Node is one of the packages.
//
//     node scripts/install.mjs           packages for running
//     node scripts/install.mjs --dev     also packages for checks, tests and benchmarks
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Packages whose install script must run: each extracts its binary for this platform. */
const WITH_PROGRAMS = ['node', 'esbuild', 'workerd'];
const DEADLINE_MS = 10 * 60_000;

const root = fileURLToPath(new URL('..', import.meta.url));
const stamp = `${root}node_modules/.cellar-installed`;
const isDev = process.argv.includes('--dev');
const hash = createHash('sha256')
  .update(readFileSync(`${root}package-lock.json`))
  .digest('hex');
const installed = existsSync(stamp) ? readFileSync(stamp, 'utf8') : '';
const complete = `${hash} dev`;

if (installed !== complete && (isDev || installed !== hash)) {
  console.log('cellar: installing packages (about 30 seconds, once per change of package-lock.json)');
  // Without `--ignore-scripts`, npm would compile better-sqlite3, although the package contains binaries. Compiling needs
  // Python, a compiler and Node's headers.
  npm('ci', '--ignore-scripts', ...(isDev ? [] : ['--omit=dev']));
  npm('rebuild', '--ignore-scripts=false', ...WITH_PROGRAMS);
  writeFileSync(`${stamp}.new`, isDev ? complete : hash);
  renameSync(`${stamp}.new`, stamp);
}

function npm(...words) {
  const { status, error } = spawnSync(
    'npm',
    [...words, '--no-audit', '--no-fund', '--loglevel=error', '--no-update-notifier'],
    {
      cwd: root,
      stdio: ['ignore', 'inherit', 'inherit'],
      timeout: DEADLINE_MS,
    },
  );
  if (status === 0) return;
  console.error(`cellar: npm ${words[0]} failed${error ? `: ${error.message}` : ''}; see above`);
  process.exit(1);
}
