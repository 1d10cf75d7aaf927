// What every answer has: a bound on its size, and refusals that the host passes on.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The most bytes of the answer under way, and how many there are. */
export let limitBytes = 0;
let bytes = 0;

/** Begins an answer. */
export function limitAnswer(most) {
  limitBytes = most;
  bytes = 0;
}

/** A part of the answer as JSON, counted. */
export function json(value) {
  const text = JSON.stringify(value);
  bytes += Buffer.byteLength(text);
  if (bytes > limitBytes)
    throw new Refusal(
      'answer_too_large',
      `the answer would have more than ${limitBytes} bytes; ask for fewer rows or columns`,
    );
  return text;
}
