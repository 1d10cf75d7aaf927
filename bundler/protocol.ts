// What passes between the host and the bundler's process.
import type { Bundled } from './bundle.ts';
import type { PageFolders } from './pages.ts';
import type { Plan } from './plan.ts';

export type BundlerRequest =
  | { id: number; method: 'plan'; worktree: string; environment: string | null; manifests: string[] }
  | {
      id: number;
      method: 'bundle';
      worktree: string;
      out: string;
      environment: string | null;
      assetsMb: number;
      /** The sites that were there before the script `build`; `null` when that did not run. */
      before: PageFolders | null;
    };

/** Each method's result. */
export interface BundlerResults {
  plan: Plan;
  bundle: Bundled;
}

/** `fault`: whose the failure is; the project's has a message for its author. */
export type BundlerReply =
  | { id: number; result: BundlerResults[keyof BundlerResults] }
  | { id: number; fault: 'project' | 'bundler'; message: string };
