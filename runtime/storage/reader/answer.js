// Common parts of answers: a size limit, and refusals that the host forwards.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * Parses a list's cursor, which a caller may have forged.
 * @param check converts its JSON to a position; returns null or throws for an invalid one
 * @throws {Refusal} when it is invalid
 */
export function placeOf(text, check) {
  let place = null;
  try {
    place = check(JSON.parse(text));
  } catch {
    // The caller is refused below.
  }
  if (place === null) throw new Refusal('invalid_input', 'cursor: is not a cursor of this list');
  return place;
}

/** The current answer's size limit, in bytes. */
export let limitBytes = 0;
/** The current answer's bytes so far. */
let bytes = 0;

/** Begins an answer. */
export function limitAnswer(most) {
  limitBytes = most;
  bytes = 0;
}

/** Encodes a part of the answer as JSON, and counts its bytes. @throws {Refusal} over the limit */
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
