// The bundler's process: wrangler and esbuild are large, and a project can make them fail in ways that must not
// reach the host. It ends with the host, or when the host disconnects.
import { bundleProject } from './bundle.ts';
import { BuildFailure } from './failure.ts';
import { planBuild } from './plan.ts';
import type { BundlerReply, BundlerRequest, BundlerResults } from './protocol.ts';

function answer(request: BundlerRequest): Promise<BundlerResults[keyof BundlerResults]> {
  if (request.method === 'plan') return planBuild(request.worktree, request.environment);
  return bundleProject(request.worktree, request.out, request.environment, request.assetsMb);
}

async function reply(request: BundlerRequest): Promise<BundlerReply> {
  const { id } = request;
  try {
    return { id, result: await answer(request) };
  } catch (error) {
    if (error instanceof BuildFailure) return { id, fault: 'project', message: error.message };
    return { id, fault: 'bundler', message: (error as Error)?.stack ?? String(error) };
  }
}

process.on('message', async (request: BundlerRequest) => {
  process.send!(await reply(request));
});
process.on('disconnect', () => process.exit(0));
