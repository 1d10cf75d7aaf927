// Parses the vectors of an insert: JSON lines, a JSON list, or a form with a file of JSON lines, as Wrangler sends it.
import { invalid, tooLarge, wrongDimensions } from './errors.ts';
import { isObject } from './filter.ts';
import { BATCH, DIMENSIONS, ID_BYTES, METADATA_BYTES, NAMESPACE_BYTES } from './limits.ts';

/** Maximum bytes of a line. A vector with its metadata needs fewer. */
const LINE_BYTES = 2 ** 20;
/** Maximum bytes of a body with a JSON list. It is parsed as a whole, which may need 20 times as much memory. */
const LIST_BYTES = 8 * 2 ** 20;

export interface GivenVector {
  id: string;
  namespace: string | null;
  /** Metadata as JSON, because the parsed metadata may need several times the memory; null without metadata. */
  metadata: string | null;
  value: Float32Array;
}

/**
 * Returns the vectors of a body.
 * @param dimensions the number of dimensions of the index; null when it is not set yet
 * @throws {VectorsError} for an invalid body or vector. If the fault is in a vector or line, the message names it
 */
export async function vectorsOf(
  body: Buffer,
  contentType: string,
  dimensions: number | null,
): Promise<GivenVector[]> {
  const given = contentType.startsWith('multipart/form-data')
    ? linesOf(await fileOf(body, contentType))
    : contentType.startsWith('application/json')
      ? listOf(body)
      : linesOf(body);
  const vectors: GivenVector[] = [];
  for (const each of given) {
    if (vectors.length === BATCH) throw tooLarge(`one call may have at most ${BATCH} vectors`);
    vectors.push(vectorOf(each, vectors.length, vectors[0]?.value.length ?? dimensions));
  }
  if (vectors.length === 0) throw invalid('no vectors are given');
  return vectors;
}

async function fileOf(body: Buffer, contentType: string): Promise<Buffer> {
  try {
    const form = await new Response(new Uint8Array(body), {
      headers: { 'content-type': contentType },
    }).formData();
    const file = form.get('vectors');
    if (file !== null)
      return typeof file === 'string' ? Buffer.from(file) : Buffer.from(await file.arrayBuffer());
  } catch {}
  throw invalid('the form has no file "vectors"');
}

function listOf(body: Buffer): unknown[] {
  if (body.length > LIST_BYTES)
    throw tooLarge(`a JSON list may have at most ${LIST_BYTES} bytes; send a line of JSON for each vector`);
  const { vectors } = jsonOf(body.toString('utf8'), 'the body') as { vectors?: unknown };
  if (!Array.isArray(vectors)) throw invalid('vectors: must be a list');
  return vectors;
}

/** Yields one parsed line at a time: all parsed lines together may need several times the body's memory. */
function* linesOf(body: Buffer): Generator<unknown> {
  for (let at = 0, number = 1; at < body.length; number++) {
    const end = body.indexOf('\n', at);
    const to = end === -1 ? body.length : end;
    if (to - at > LINE_BYTES) throw tooLarge(`line ${number}: may have at most ${LINE_BYTES} bytes`);
    const line = body.toString('utf8', at, to).trim();
    at = to + 1;
    if (line !== '') yield jsonOf(line, `line ${number}`);
  }
}

function vectorOf(given: unknown, at: number, dimensions: number | null): GivenVector {
  if (!isObject(given)) throw invalid(`vector ${at + 1}: must be an object`);
  const { id, values, namespace = null, metadata = null } = given;
  if (typeof id !== 'string' || id === '' || Buffer.byteLength(id) > ID_BYTES)
    throw invalid(`vector ${at + 1}: id: must be a text of 1 to ${ID_BYTES} bytes`);
  const place = `vector ${JSON.stringify(id)}`;
  if (namespace !== null && (typeof namespace !== 'string' || Buffer.byteLength(namespace) > NAMESPACE_BYTES))
    throw invalid(`${place}: namespace: must be a text of at most ${NAMESPACE_BYTES} bytes`);
  if (metadata !== null && !isObject(metadata)) throw invalid(`${place}: metadata: must be an object`);
  const text = metadata && JSON.stringify(metadata);
  const bytes = text === null ? 0 : Buffer.byteLength(text);
  if (bytes > METADATA_BYTES)
    throw invalid(`${place}: metadata: may have at most ${METADATA_BYTES} bytes as JSON, and has ${bytes}`);
  return { id, namespace, metadata: text, value: numbersOf(values, dimensions, place) };
}

/**
 * Returns the numbers of a vector.
 * @param dimensions how many numbers the vector must have; null for any number up to `DIMENSIONS`
 * @param place names the vector in error messages
 * @throws {VectorsError} for an invalid number of values, or a value that is not a 32-bit float
 */
export function numbersOf(values: unknown, dimensions: number | null, place: string): Float32Array {
  if (!Array.isArray(values) || values.length === 0 || values.length > DIMENSIONS)
    throw invalid(`${place}: values: must be a list of 1 to ${DIMENSIONS} numbers`);
  if (dimensions !== null && values.length !== dimensions)
    throw wrongDimensions(
      `${place}: invalid vector for the index, expected ${dimensions} dimensions, and got ${values.length} dimensions`,
    );
  const floats = new Float32Array(values.length);
  for (let at = 0; at < values.length; at++) {
    const value: unknown = values[at];
    floats[at] = typeof value === 'number' ? value : Number.NaN;
    if (!Number.isFinite(floats[at]))
      throw invalid(`${place}: values: number ${at + 1} is not a 32-bit float`);
  }
  return floats;
}

export function jsonOf(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(`${what} is not JSON`);
  }
}
