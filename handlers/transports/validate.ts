// Validates input against an operation's schema.
import type * as z from 'zod';
import type { ProblemBody } from '../contract/errors.ts';
import { Problem } from '../problem.ts';

type Issue = z.core.$ZodIssue;

/** Validates an input. @throws {Problem} `invalid_input` with one entry for each wrong, missing or unknown field */
export function validate<Schema extends z.ZodObject>(schema: Schema, input: unknown): z.output<Schema> {
  const result = schema.safeParse(input, { reportInput: true });
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
  return [{ path: pathOf(issue.path), message: messageOf(issue) }];
}

/** Descriptions of expected types, by zod's name of the type. */
const TYPES: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

/** Units of limits, by zod's name of the type. The limit of a number has no unit. */
const UNITS: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' };

function messageOf(issue: Issue): string {
  if (issue.input === undefined) return 'is required';
  // The path already ends with the key, so the message describes the key's own fault.
  if (issue.code === 'invalid_key') return messageOf(issue.issues[0]! as Issue);
  if (issue.code === 'invalid_type') {
    const type = TYPES[issue.expected];
    if (type) return `must be ${type}`;
  } else if (issue.code === 'too_small') {
    return limitOf('at least', issue.minimum, UNITS[issue.origin]);
  } else if (issue.code === 'too_big') {
    return limitOf('at most', issue.maximum, UNITS[issue.origin]);
  } else if (issue.code === 'invalid_value') {
    return `must be ${issue.values.map(String).join(' or ')}`;
  }
  return lowerFirst(issue.message);
}

function limitOf(bound: string, limit: number | bigint, unit: string | undefined): string {
  if (unit === undefined) return `must be ${bound} ${limit}`;
  return limit === 1 && bound === 'at least' ? 'must not be empty' : `must have ${bound} ${limit} ${unit}`;
}

function pathOf(path: PropertyKey[]): string {
  return path.map(String).join('.');
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
