// Runs an operation for any transport.
import { findAppBySlug } from '../../sqlite/control/apps/apps.ts';
import { authorize } from '../access.ts';
import type { Context } from '../context.ts';
import type { Needs, Operation } from '../contract/operation.ts';
import { Problem } from '../problem.ts';
import { services } from '../services/index.ts';
import { Replaced, type Transport } from '../services/types.ts';
import { type Answered, once } from './idempotency.ts';
import { validate } from './validate.ts';
import { whileAllowed } from './while-allowed.ts';

/** Rights that concern an app. */
const NEEDS_APP: readonly Needs[] = ['view', 'push', 'admin'];
const ID = /^[0-9a-z]{16}$/;

type Run = (context: Context, input: unknown, transport: Transport) => Promise<unknown>;

const implementations: Partial<Record<string, Run>> = services as unknown as Record<string, Run>;

/**
 * Validates the input, authorizes the caller, and runs the operation.
 * @param from.key makes a repeated change run once
 * @returns the operation's `output` (a stream's bytes), and the REST status
 * @throws {Problem} with one of the operation's codes, or a code that every operation has
 */
export async function invoke(
  operation: Operation,
  context: Context,
  input: unknown,
  from: { transport: Transport; key: string | null },
): Promise<Answered> {
  const checked = await withAppId(context, operation, validate(operation.input, input));
  await authorize(context, operation, checked);
  const implementation = implementations[operation.name]!;
  const run = async (context: Context): Promise<Answered> => {
    const answered = await implementation(context, checked, from.transport);
    const output =
      answered instanceof ReadableStream && context.actor.kind === 'account'
        ? whileAllowed(context, operation, checked, answered)
        : answered;
    return output instanceof Replaced
      ? { status: 200, output: output.output }
      : { status: operation.status, output };
  };
  if (from.key === null || operation.method === 'GET') return run(context);
  return once(context, operation, from.key, checked, run);
}

/** Replaces an app's slug by its id. A slug in the format of an id is taken as an id. */
export async function withAppId<Input extends object>(
  { reads }: Context,
  { needs }: Pick<Operation, 'needs'>,
  input: Input,
): Promise<Input> {
  const { id } = input as { id?: unknown };
  if (!NEEDS_APP.includes(needs) || typeof id !== 'string' || ID.test(id)) return input;
  const app = await findAppBySlug(reads, id);
  if (app === null) throw new Problem('app_not_found', `There is no app ${id}.`);
  return { ...input, id: app.id };
}
