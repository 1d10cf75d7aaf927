// What passes between the host and the bundler's process.
import type { Bundled } from './bundle.ts';
import type { BuildCommand } from './plan.ts';

export type BundlerRequest =
  | { id: number; method: 'plan'; worktree: string; environment: string | null }
  | {
      id: number;
      method: 'bundle';
      worktree: string;
      out: string;
      environment: string | null;
      assetsMb: number;
    };

/** Each method's result. */
export interface BundlerResults {
  plan: BuildCommand | null;
  bundle: Bundled;
}

/** `fault`: whose the failure is; the project's has a message for its author. */
export type BundlerReply =
  | { id: number; result: BundlerResults[keyof BundlerResults] }
  | { id: number; fault: 'project' | 'bundler'; message: string };
