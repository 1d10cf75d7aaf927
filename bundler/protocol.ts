// The messages between the host and the bundler's process.
import type { Bundled, BundleOptions } from './bundle.ts';
import type { Plan, PlanOptions } from './project/plan.ts';

export type BundlerRequest =
  | { id: number; method: 'plan'; options: PlanOptions }
  | { id: number; method: 'bundle'; options: BundleOptions };

export interface BundlerResults {
  plan: Plan;
  bundle: Bundled;
}

/** `fault`: the side that caused the failure; a project's failure has a message for its author. */
export type BundlerReply =
  | { id: number; result: BundlerResults[keyof BundlerResults] }
  | { id: number; fault: 'project' | 'bundler'; message: string };
