// Results of calls to Durable Objects.
import type { ErrorCode } from '../contract/errors.ts';
import { Problem } from '../problem.ts';

/** The result of a call. Refusals are values, because errors lose their fields when they leave a Durable Object. */
export type Outcome<Value> =
  | { ok: true; value: Value }
  | { ok: false; code: ErrorCode; detail: string; changed?: boolean };

/** Returns the outcome of `run`: a `Problem` becomes a value. */
export async function outcomeOf<Value>(run: () => Promise<Value>): Promise<Outcome<Value>> {
  try {
    return { ok: true, value: await run() };
  } catch (error) {
    return refusal(error);
  }
}

/** Converts a `Problem` to a refusal. @throws every other error unchanged */
export function refusal(error: unknown): Extract<Outcome<never>, { ok: false }> {
  if (error instanceof Problem)
    return { ok: false, code: error.code, detail: error.message, changed: error.changed };
  throw error;
}

/** Returns the value of an outcome. @throws {Problem} its refusal */
export function unwrap<Value>(outcome: Outcome<Value>): Value {
  if (outcome.ok) return outcome.value;
  throw new Problem(outcome.code, outcome.detail, undefined, outcome.changed);
}
