// Common parts of answers: a size limit, cursors, and refusals that the host forwards.
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/**
 * Parses a list's cursor, which a caller may have forged.
 * @param check converts the cursor's parsed JSON to a position; returns null or throws when it is invalid
 * @throws {Refusal} when the cursor is invalid
 */
export function placeOf(text, check) {
  let place = null;
  try {
    place = check(JSON.parse(text));
  } catch {
    // `place` is null, so this throws below.
  }
  if (place === null) throw new Refusal('invalid_input', 'cursor: is not a cursor of this list');
  return place;
}

/** The current answer's size limit, in bytes. */
export let limitBytes = 0;
/** The current answer's bytes so far. */
let bytes = 0;

/** Starts to count the bytes of the next answer. @param most its size limit, in bytes */
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
