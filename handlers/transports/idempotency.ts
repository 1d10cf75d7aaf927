// `Idempotency-Key`: a request that comes again gets the first answer.
import { freeKey, keepAnswer, takeKey } from '../../sqlite/control/idempotency.ts';
import type { Context } from '../context.ts';
import type { ErrorCode } from '../contract/errors.ts';
import type { Operation } from '../contract/operation.ts';
import { Problem } from '../problem.ts';
import { hashOf } from '../secrets.ts';
import { invalidInput } from './validate.ts';

/** What an operation came to. */
export interface Answered {
  status: number;
  output: unknown;
}

type Kept = Answered | { code: ErrorCode; detail: string };

/** @throws {Problem} `invalid_input` for a key that is none */
export function idempotencyKey(headers: Headers): string | null {
  const key = headers.get('idempotency-key');
  if (key === null || /^[\x21-\x7e]{1,200}$/.test(key)) return key;
  throw invalidInput([{ path: 'Idempotency-Key', message: 'must have 1 to 200 visible ASCII characters' }]);
}

/**
 * Runs an operation once for a key. What fails through a fault of ours may be tried again.
 * @throws {Problem} the operation's, the first time and again; `idempotency_mismatch`; `idempotency_in_progress`
 */
export async function once(
  { db }: Context,
  operation: Operation,
  key: string,
  input: unknown,
  run: () => Promise<Answered>,
): Promise<Answered> {
  const inputHash = await hashOf(canonical(input));
  const known = await takeKey(db, { key, operation: operation.name, inputHash, now: Date.now() });
  if (known !== null) {
    if (known.operation !== operation.name || known.input_hash !== inputHash)
      throw new Problem('idempotency_mismatch');
    if (known.answer === null) throw new Problem('idempotency_in_progress');
    return replay(JSON.parse(known.answer) as Kept);
  }
  try {
    const answer = await run();
    const output = withoutSecrets(answer.output, operation.secrets ?? []);
    await keepAnswer(db, key, JSON.stringify({ status: answer.status, output } satisfies Kept));
    return answer;
  } catch (error) {
    if (error instanceof Problem && error.status < 500) {
      await keepAnswer(db, key, JSON.stringify({ code: error.code, detail: error.message } satisfies Kept));
    } else await freeKey(db, key);
    throw error;
  }
}

function replay(kept: Kept): Answered {
  if ('code' in kept) throw new Problem(kept.code, kept.detail);
  return kept;
}

function withoutSecrets(output: unknown, secrets: readonly string[]): unknown {
  if (typeof output !== 'object' || output === null) return output;
  return Object.fromEntries(Object.entries(output).filter(([name]) => !secrets.includes(name)));
}

/** JSON with sorted names, so that equal inputs have equal texts. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
