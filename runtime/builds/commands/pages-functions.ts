// Compiles the functions of a Cloudflare Pages project with Wrangler.
import { newestCompatibilityDate } from '../../../bundler/configuration/compatibility-date.ts';
import { COMPILED_FUNCTIONS } from '../../../bundler/project/cloudflare-pages.ts';
import type { Plan } from '../../../bundler/project/plan.ts';
import type { BuildInput } from '../release/build-input.ts';
import { runInProject } from './commands.ts';
import type { BuildDirectories } from './environment.ts';
import { WRANGLER_FILES, wranglerCommand } from './wrangler.ts';

/** Returns the command that compiles functions/ of the project to the path where the bundler expects the Worker. */
export function functionsCommand({ hasConfig }: Pick<Plan, 'hasConfig'>): {
  title: string;
  arguments: string[];
} {
  const out = COMPILED_FUNCTIONS;
  return {
    title: 'wrangler pages functions build',
    arguments: wranglerCommand(out, [
      ...['pages', 'functions', 'build', `--outdir=${out}`, `--output-routes-path=${out}/_routes.json`],
      ...(hasConfig ? [] : [`--compatibility-date=${newestCompatibilityDate}`]),
    ]),
  };
}

/** Compiles functions/ of the project. */
export async function compileFunctions(
  input: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
): Promise<void> {
  const command = { ...functionsCommand(plan), folder: plan.folder, read: WRANGLER_FILES };
  await runInProject(input, directories, plan, command);
}
