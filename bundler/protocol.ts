// The messages between the host and the bundler's process.
import type { Bundled, BundleOptions } from './bundle.ts';
import type { BuiltProject, Plan, PlanOptions } from './project/plan.ts';

export type BundlerRequest =
  | { id: number; method: 'plan'; options: PlanOptions }
  | { id: number; method: 'functions'; options: BuiltProject }
  | { id: number; method: 'bundle'; options: BundleOptions };

export interface BundlerResults {
  plan: Plan;
  functions: boolean;
  bundle: Bundled;
}

/** `fault`: what caused the failure. `message` is for the project's author if `project`, else it is a stack trace. */
export type BundlerReply =
  | { id: number; result: BundlerResults[keyof BundlerResults] }
  | { id: number; fault: 'project' | 'bundler'; message: string };
