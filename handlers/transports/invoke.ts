// Runs an operation for any transport.
import type * as z from 'zod';
import { findAppBySlug } from '../../sqlite/control/apps/apps.ts';
import { authorize } from '../access.ts';
import { audited, isAudited, record, targetOf } from '../audit.ts';
import type { Context } from '../context.ts';
import { idPattern } from '../contract/id.ts';
import { isOfApp, type Operation } from '../contract/operation.ts';
import { Problem } from '../problem.ts';
import { requireApp } from '../services/apps/apps.ts';
import { services, servicesOfHost } from '../services/index.ts';
import { Replaced, type Transport } from '../services/types.ts';
import { type Answered, once, repeated } from './idempotency.ts';
import { validate } from './validate.ts';
import { whileAllowed } from './while-allowed.ts';

type Run = (context: Context, input: unknown, transport: Transport) => Promise<unknown>;

const implementations: Partial<Record<string, Run>> = services as unknown as Record<string, Run>;

/**
 * Validates the input, authorizes the caller, and runs the operation.
 * @param from.key the idempotency key, with which a repeated change runs once; null without one
 * @returns the operation's `output` (for a stream, its bytes), and the REST status
 * @throws {Problem} with one of the operation's codes, or a code that every operation has
 */
export async function invoke(
  operation: Operation,
  context: Context,
  input: unknown,
  from: { transport: Transport; key: string | null },
): Promise<Answered> {
  const key = operation.method === 'GET' ? null : from.key;
  let admitted: Admitted<typeof operation.input>;
  try {
    admitted = await admit(context, operation, operation.input, input);
  } catch (error) {
    // A repeated deletion finds no app, but gets the stored answer of the first request.
    const isGone = error instanceof Problem && error.code === 'app_not_found';
    const kept =
      isGone && key !== null
        ? await repeated(context, operation, key, validate(operation.input, input))
        : null;
    if (kept === null) throw error;
    return kept;
  }
  const { checked, valid, requireApp } = admitted;
  const implementation = implementations[operation.name]!;
  const run = async (watched: Context): Promise<Answered> => {
    const work = async () => {
      // Runs inside `once`, because a repeated deletion would find no app.
      if (operation.name in servicesOfHost) await requireApp();
      return implementation(watched, checked, from.transport);
    };
    const isDryRun = 'dry_run' in checked && checked.dry_run === true;
    const isLogged = isAudited(operation) && context.isAudited !== true && !isDryRun;
    // Audit entries are not written through `watched`: an entry about a failure is not a change that forbids a retry.
    const answered = await (isLogged
      ? audited(context, context, targetOf(operation, checked), work)
      : work());
    const output =
      answered instanceof ReadableStream && context.actor.kind === 'account'
        ? whileAllowed(context, operation, checked, answered)
        : answered;
    return output instanceof Replaced
      ? { status: 200, output: output.output }
      : { status: operation.status, output };
  };
  return key === null ? run(context) : once(context, operation, key, valid, run);
}

/** An input that the caller may use. */
interface Admitted<Schema extends z.ZodObject> {
  /** The validated input, with the app's id or slug as the caller gave it. */
  valid: z.output<Schema>;
  /** The validated input, with the app's id in place of its slug. */
  checked: z.output<Schema>;
  /** Checks that the app exists. Queries D1 only if the app was not found before. @throws {Problem} `app_not_found` */
  requireApp: () => Promise<unknown>;
}

/** Validates an input, replaces an app's slug in it by the id, and authorizes the caller. */
export async function admit<Schema extends z.ZodObject>(
  context: Context,
  operation: Operation,
  schema: Schema,
  input: unknown,
): Promise<Admitted<Schema>> {
  const valid = validate(schema, input);
  const checked = isOfApp(operation) ? await withAppId(context, valid) : valid;
  const isFound = (await authorized(context, operation, checked)) || checked !== valid;
  return {
    checked,
    valid,
    requireApp: async () => isFound || requireApp(context, (checked as { id: string }).id),
  };
}

/** Like `authorize`, but also writes refused changes to the audit log. */
async function authorized(context: Context, operation: Operation, input: object): Promise<boolean> {
  try {
    return await authorize(context, operation, input);
  } catch (error) {
    if (error instanceof Problem && isAudited(operation) && context.isAudited !== true)
      await record(context, context, targetOf(operation, input), error.code);
    throw error;
  }
}

/** Replaces an app's slug by its id. A slug in the format of an id is taken as an id. */
async function withAppId<Input extends object>({ reads }: Context, input: Input): Promise<Input> {
  const { id } = input as { id?: unknown };
  if (typeof id !== 'string' || idPattern.test(id)) return input;
  const app = await findAppBySlug(reads, id);
  if (app === null) throw new Problem('app_not_found', `There is no app ${id}.`);
  return { ...input, id: app.id };
}
