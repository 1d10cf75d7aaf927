// The bundler's process: wrangler and esbuild are large, and a project can make them fail in ways that must not
// reach the host. It ends with the host, or when the host disconnects.
import { flushCompileCache } from 'node:module';
import { bundleProject } from './bundle.ts';
import { BuildFailure } from './failure.ts';
import { planBuild } from './project/plan.ts';
import type { BundlerReply, BundlerRequest, BundlerResults } from './protocol.ts';

/** Maximum characters of a message to the project's author. One source line may be very long. */
const MESSAGE_LENGTH = 16_000;

/** Delay in ms after an answer before the process writes its compile cache to the disk: the deploy goes first. */
const KEEP_AFTER_MS = 500;

function answer(request: BundlerRequest): Promise<BundlerResults[keyof BundlerResults]> {
  return request.method === 'plan' ? planBuild(request.options) : bundleProject(request.options);
}

async function reply(request: BundlerRequest): Promise<BundlerReply> {
  const { id } = request;
  try {
    return { id, result: await answer(request) };
  } catch (error) {
    if (error instanceof BuildFailure) return { id, fault: 'project', message: shorten(error.message) };
    return { id, fault: 'bundler', message: shorten((error as Error)?.stack ?? String(error)) };
  }
}

function shorten(text: string): string {
  return text.length <= MESSAGE_LENGTH ? text : `${text.slice(0, MESSAGE_LENGTH).toWellFormed()} …`;
}

process.on('message', async (request: BundlerRequest) => {
  process.send!(await reply(request));
  // Not at exit: the process ends by SIGKILL.
  setTimeout(flushCompileCache, KEEP_AFTER_MS).unref();
});
process.on('disconnect', () => process.exit(0));
