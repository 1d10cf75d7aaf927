// `Idempotency-Key`: a repeated request gets the first answer.
import {
  findAnswer,
  freeKey,
  type HeldKey,
  type KeptAnswer,
  keepAnswer,
  renewKey,
  takeKey,
} from '../../sqlite/control/idempotency.ts';
import { callerOf } from '../access.ts';
import type { Context } from '../context.ts';
import { type ErrorCode, errorCodes, type ProblemBody } from '../contract/errors.ts';
import type { Operation } from '../contract/operation.ts';
import { Problem } from '../problem.ts';
import { hashOf } from '../secrets.ts';
import { watchChanges } from './changes.ts';
import { invalidInput } from './validate.ts';

/** The result of an operation. */
export interface Answered {
  status: number;
  output: unknown;
}

type Kept = Answered | { code: ErrorCode; detail: string; errors?: ProblemBody['errors'] };

/** Interval at which a running request renews its lease on the key, in ms. */
const RENEW_MS = 15_000;

export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,200}$/;

/** Returns the idempotency key of a request; null without one. @throws {Problem} `invalid_input` for an invalid key */
export function idempotencyKey(headers: Headers): string | null {
  const key = headers.get('idempotency-key');
  if (key === null || IDEMPOTENCY_KEY.test(key)) return key;
  throw invalidInput([{ path: 'Idempotency-Key', message: 'must have 1 to 200 visible ASCII characters' }]);
}

/**
 * Runs an operation once for each key of a caller, to its end even if the client disconnects. A repeated request gets the
 * stored answer, also if it is an error. The operation runs again only if it failed unexpectedly, with a 5xx or with 429,
 * and changed nothing.
 * @param input the validated input. It names an app by the id or slug that the caller gave, because after a deletion a slug
 *   cannot be resolved to an id.
 * @throws {Problem} the operation's error, also for a repeated request; `idempotency_mismatch`; `idempotency_in_progress`
 */
export async function once(
  context: Context,
  operation: Operation,
  key: string,
  input: unknown,
  run: (context: Context) => Promise<Answered>,
): Promise<Answered> {
  const held = { caller: callerOf(context.actor), key, holder: crypto.randomUUID() };
  const request = await requestOf(context, operation, input);
  const known = await takeKey(context.db, held, request, Date.now());
  if (known === null) {
    const running = runHeld(context, held, operation, run);
    context.waitUntil(running.catch(() => {}));
    return running;
  }
  return answerOf(known, request);
}

/**
 * Returns the stored answer to a repeated request; null for a request that is not a repeat.
 * @throws {Problem} the same errors as `once`, for a repeated request
 */
export async function repeated(
  context: Context,
  operation: Operation,
  key: string,
  input: unknown,
): Promise<Answered | null> {
  const known = await findAnswer(context.db, { caller: callerOf(context.actor), key }, Date.now());
  return known && answerOf(known, await requestOf(context, operation, input));
}

interface Request {
  operation: string;
  inputHash: string;
}

async function requestOf({ env }: Context, { name }: Operation, input: unknown): Promise<Request> {
  // Hashed with the token, so that a reader of the table cannot find a secret input by trying values.
  return { operation: name, inputHash: await hashOf(`${env.RUNNER_TOKEN}\n${canonical(input)}`) };
}

function answerOf(known: KeptAnswer, { operation, inputHash }: Request): Answered {
  if (known.operation !== operation || known.input_hash !== inputHash)
    throw new Problem('idempotency_mismatch');
  if (known.answer === null) throw new Problem('idempotency_in_progress');
  return replay(JSON.parse(known.answer) as Kept);
}

async function runHeld(
  context: Context,
  held: HeldKey,
  { secrets = [] }: Operation,
  run: (context: Context) => Promise<Answered>,
): Promise<Answered> {
  const { db } = context;
  const { watched, changed } = watchChanges(context);
  const renew = () => renewKey(db, held, Date.now()).catch(() => {});
  const renewing = setInterval(() => void renew(), RENEW_MS);
  const keep = (kept: Kept) => keepAnswer(db, held, JSON.stringify(kept), Date.now());
  try {
    const answer = await run(watched);
    await keep({ status: answer.status, output: withoutSecrets(answer.output, secrets) });
    return answer;
  } catch (error) {
    const kept = keptOf(error, changed());
    await (kept === null ? freeKey(db, held) : keep(kept));
    throw error;
  } finally {
    clearInterval(renewing);
  }
}

/**
 * Returns the stored answer for a failure; null when the request may run again.
 * @param mayHaveChanged whether something may have changed before an unexpected error
 */
function keptOf(error: unknown, mayHaveChanged: boolean): Kept | null {
  if (!(error instanceof Problem))
    return mayHaveChanged ? { code: 'internal_error', detail: errorCodes.internal_error.meaning } : null;
  const { code, message, errors, status, changed } = error;
  const mayRetry = status >= 500 || status === 429;
  return mayRetry && !changed ? null : { code, detail: message, ...(errors && { errors }) };
}

function replay(kept: Kept): Answered {
  if ('code' in kept) throw new Problem(kept.code, kept.detail, kept.errors);
  return kept;
}

function withoutSecrets(output: unknown, secrets: readonly string[]): unknown {
  if (typeof output !== 'object' || output === null) return output;
  return Object.fromEntries(Object.entries(output).filter(([name]) => !secrets.includes(name)));
}

/** Serializes JSON with sorted names, so that equal inputs give equal strings. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
