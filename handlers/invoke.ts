// Running an operation, whichever transport asked for it.
import type { Context } from './context.ts';
import { notYet } from './contract/not-yet.ts';
import type { Operation } from './contract/operation.ts';
import { Problem } from './problem.ts';
import { services } from './services/index.ts';
import { validate } from './validate.ts';

type Run = (context: Context, input: unknown) => Promise<unknown>;

/**
 * Checks the input and runs the operation.
 * @returns what the operation's `output` describes
 * @throws {Problem} with one of the operation's codes, or of those that every operation has
 */
export async function invoke(operation: Operation, context: Context, input: unknown): Promise<unknown> {
  const checked = validate(operation.input, input);
  const run = (services as Record<string, Run>)[operation.name];
  if (run === undefined || (notYet as readonly string[]).includes(operation.name)) {
    throw new Problem('not_implemented', `${operation.name} is declared and not there yet.`);
  }
  return run(context, checked);
}
