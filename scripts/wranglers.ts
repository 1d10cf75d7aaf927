// Runs the tests of `test/wrangler` with other releases of Wrangler: `npm run wranglers -- 4.160.0 4.158.0`. Installs each
// release from npm into a temporary folder. With `--quick`, runs one test, to show that the script still works.
import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isQuick } from '../bench/support/bench-scale.ts';

const INSTALL_DEADLINE_MS = 300_000;

const versions = process.argv.slice(2).filter((word) => word !== '--quick');
if (versions.length === 0) {
  console.error('name releases of Wrangler, such as: npm run wranglers -- 4.160.0 4.158.0');
  process.exit(1);
}
const tests = isQuick
  ? ['test/wrangler/deploy.test.ts', '--test-name-pattern=^a one-file Worker']
  : globSync('test/wrangler/*.test.ts').sort();
const outcomes: string[] = [];
for (const version of versions) {
  console.log(`\nWrangler ${version}`);
  const directory = mkdtempSync(join(tmpdir(), 'cellar-wrangler-'));
  try {
    execFileSync(
      'npm',
      [
        'install',
        '--prefix',
        directory,
        '--no-audit',
        '--no-fund',
        '--ignore-scripts',
        `wrangler@${version}`,
      ],
      { stdio: 'inherit', timeout: INSTALL_DEADLINE_MS },
    );
    const wrangler = join(directory, 'node_modules/.bin/wrangler');
    const { status } = spawnSync(process.execPath, ['scripts/test.ts', ...tests], {
      stdio: 'inherit',
      env: { ...process.env, CELLAR_TEST_WRANGLER: wrangler },
    });
    outcomes.push(`Wrangler ${version}: ${status === 0 ? 'passed' : 'failed'}`);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
console.log(`\n${outcomes.join('\n')}`);
process.exitCode = outcomes.every((outcome) => outcome.endsWith('passed')) ? 0 : 1;
