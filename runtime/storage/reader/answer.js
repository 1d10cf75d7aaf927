// The question, and what every answer has: a bound on its size, and refusals that the host passes on.
import { readFileSync } from 'node:fs';

export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export const { kind, limitBytes, ...question } = JSON.parse(readFileSync(0, 'utf8'));
let bytes = 0;

/** A part of the answer as JSON, counted. */
export function json(value) {
  const text = JSON.stringify(value);
  bytes += text.length;
  if (bytes > limitBytes)
    throw new Refusal(
      'answer_too_large',
      `the answer would have more than ${limitBytes} bytes; ask for fewer rows or columns`,
    );
  return text;
}
