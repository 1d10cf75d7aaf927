// What every answer has: a bound on its size, and refusals that the host passes on.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * Where a list goes on, from a text that a caller may have made up.
 * @param check makes of its JSON a place of the list; it returns null, or throws, when that is none
 * @throws {Refusal} when it is none
 */
export function placeOf(text, check) {
  let place = null;
  try {
    place = check(JSON.parse(text));
  } catch {
    // The caller is told below.
  }
  if (place === null) throw new Refusal('invalid_input', 'cursor: is not a cursor of this list');
  return place;
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
