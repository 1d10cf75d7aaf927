// Input, checked against an operation's schema.
import type * as z from 'zod';
import type { ProblemBody } from './contract/errors.ts';
import { Problem } from './problem.ts';

type Issue = z.core.$ZodIssue;

/** @throws {Problem} `invalid_input` with one entry per wrong, missing or unknown field */
export function validate<Schema extends z.ZodObject>(schema: Schema, input: unknown): z.output<Schema> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  throw invalidInput(result.error.issues.flatMap(entriesOf));
}

export function invalidInput(errors: NonNullable<ProblemBody['errors']>): Problem {
  const first = errors[0]!;
  const detail = first.path === '' ? `The input ${first.message}.` : `${first.path}: ${first.message}.`;
  return new Problem('invalid_input', detail.replace(/\.\.$/, '.'), errors);
}

function entriesOf(issue: Issue): { path: string; message: string }[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ path: pathOf([...issue.path, key]), message: 'unknown field' }));
  }
  const missing = issue.code === 'invalid_type' && issue.input === undefined;
  return [{ path: pathOf(issue.path), message: missing ? 'is required' : lowerFirst(issue.message) }];
}

function pathOf(path: PropertyKey[]): string {
  return path.map(String).join('.');
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
