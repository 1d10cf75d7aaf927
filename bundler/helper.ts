// Runs the bundler in a process of its own. wrangler and esbuild need much memory, and a project can make them crash, which
// must not end the host. This process exits when its channel to the host closes.
import { flushCompileCache } from 'node:module';
import { bundleProject } from './bundle.ts';
import { BuildFailure } from './failure.ts';
import { findFunctions, planBuild } from './project/plan.ts';
import type { BundlerReply, BundlerRequest, BundlerResults } from './protocol.ts';

/** Maximum characters of a message to the project's author. One source line may be very long. */
const MESSAGE_LENGTH = 16_000;

/** Delay of the compile cache's write after an answer, in ms, so that the write does not slow the deploy. */
const KEEP_AFTER_MS = 500;

function answer(request: BundlerRequest): Promise<BundlerResults[keyof BundlerResults]> {
  if (request.method === 'plan') return planBuild(request.options);
  return request.method === 'functions' ? findFunctions(request.options) : bundleProject(request.options);
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
  // Node would write the cache at exit, but the host ends this process by SIGKILL.
  setTimeout(flushCompileCache, KEEP_AFTER_MS).unref();
});
process.on('disconnect', () => process.exit(0));
