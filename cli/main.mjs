// The entry of `cellar`. It is JavaScript, because loading TypeScript would more than double the time of `cellar --version`.
import { readFileSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { homedir } from 'node:os';
import { join } from 'node:path';

if (process.argv[2] === '--version') {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  process.stdout.write(`${version}\n`);
} else {
  enableCompileCache(join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'cellar'));
  const { main } = await import('./cli.ts');
  process.exitCode = await main(process.argv.slice(2));
}
