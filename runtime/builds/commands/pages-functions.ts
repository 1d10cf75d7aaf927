// Compiles the functions of a Cloudflare Pages project with Wrangler. Runs in the sandbox of the project's other commands, because
// the compiler reads every file that a function imports.
import { findPackageJSON } from 'node:module';
import { dirname, join } from 'node:path';
import { newestCompatibilityDate } from '../../../bundler/configuration/compatibility-date.ts';
import { COMPILED_FUNCTIONS } from '../../../bundler/project/cloudflare-pages.ts';
import type { Plan } from '../../../bundler/project/plan.ts';
import type { BuildInput } from '../release/build-input.ts';
import { runInProject } from './commands.ts';
import type { BuildDirectories } from './environment.ts';

const WRANGLER = dirname(findPackageJSON('wrangler', import.meta.url)!);

/** Returns the command that compiles functions/ of the project to the path where the bundler expects the Worker. */
export function functionsCommand({ hasConfig }: Pick<Plan, 'hasConfig'>): {
  title: string;
  arguments: string[];
} {
  const out = COMPILED_FUNCTIONS;
  const settings = {
    WRANGLER_SEND_METRICS: 'false',
    WRANGLER_WRITE_LOGS: 'false',
    WRANGLER_HIDE_BANNER: 'true',
  };
  return {
    title: 'wrangler pages functions build',
    arguments: [
      ...['/bin/sh', '-c', 'mkdir -p "$0" && exec "$@"', out],
      ...['env', ...Object.entries(settings).map((entry) => entry.join('='))],
      ...[process.execPath, '--no-warnings', join(WRANGLER, 'wrangler-dist', 'cli.js')],
      ...['pages', 'functions', 'build', `--outdir=${out}`, `--output-routes-path=${out}/_routes.json`],
      ...(hasConfig ? [] : [`--compatibility-date=${newestCompatibilityDate}`]),
    ],
  };
}

/** Compiles functions/ of the project, if it has any. */
export async function compileFunctions(
  input: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
): Promise<void> {
  if (!plan.hasFunctions) return;
  const command = { ...functionsCommand(plan), folder: plan.folder, read: [dirname(WRANGLER)] };
  await runInProject(input, directories, plan, command);
}
