// Reads or discards untrusted request bodies.
import { endOfString } from '../contract/json-text.ts';
import { BODY_BYTES } from '../contract/sizes.ts';
import { cutText } from '../contract/text.ts';
import { Problem } from '../problem.ts';

/** Maximum nesting depth. Deeper JSON comes only from attacks on parsers. */
const DEPTH_LIMIT = 64;
/** Maximum brackets and commas of a body. More would keep the control plane's thread busy for seconds. */
const SEPARATORS_LIMIT = 2_000_000;
/** Maximum bytes of a refused body that are read. */
const DISCARDED_BYTES = 512 * 1024 * 1024;
/** Maximum time for which a refused body is read, in ms. */
const DISCARD_DEADLINE_MS = 60_000;

/**
 * Reads a body as JSON.
 * @returns undefined for an empty body
 * @throws {Problem} 413 over `limitBytes`, 415 for another type, 400 when it is not JSON in UTF-8
 */
export async function readJson(request: Request, limitBytes = BODY_BYTES): Promise<unknown> {
  const text = await readText(request, limitBytes);
  return text === '' ? undefined : parseJson(text);
}

/**
 * Reads a JSON body from the host. The host is trusted, so names and nesting are not checked. Lone surrogates are replaced.
 */
export async function readHostJson(request: Request, limitBytes: number): Promise<unknown> {
  return parseHostJson(await readText(request, limitBytes));
}

/**
 * Parses JSON from the host, or JSON that passed `requireModerate`. Lone surrogates are replaced. Does not check names.
 * @throws {Problem} `malformed_json`
 */
export function parseHostJson(text: string): unknown {
  const value = parse(text);
  return hasLoneSurrogate(text, value) ? JSON.parse(text, wellFormed) : value;
}

function wellFormed(_name: string, value: unknown): unknown {
  return typeof value === 'string' ? value.toWellFormed() : value;
}

/** Reads a body of type JSON without parsing it. Throws as `readJson` does. */
export async function readText(request: Request, limitBytes = BODY_BYTES): Promise<string> {
  const bytes = await readBytes(request, limitBytes);
  if (bytes.length === 0) return '';
  requireJsonType(request.headers);
  return decode(bytes);
}

/**
 * Reads and drops the rest of a refused body, within limits. Otherwise workerd would close the connection,
 * mostly before the client has read the response that refuses the request.
 */
export async function discard(body: ReadableStream<Uint8Array>): Promise<void> {
  const end = Date.now() + DISCARD_DEADLINE_MS;
  let left = DISCARDED_BYTES;
  try {
    for await (const chunk of body) {
      left -= chunk.length;
      if (left < 0 || Date.now() > end) return;
    }
  } catch {
    // The sender has closed the connection.
  }
}

/** Reads a body into memory. @throws {Problem} `body_too_large` as soon as the limit is exceeded */
export async function readBytes(request: Request, limitBytes: number): Promise<Uint8Array> {
  const tooLarge = () => new Problem('body_too_large', `The body may have at most ${limitBytes} bytes.`);
  if (Number(request.headers.get('content-length') ?? 0) > limitBytes) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.length;
    if (size > limitBytes) throw tooLarge();
    chunks.push(chunk);
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

function requireJsonType(headers: Headers): void {
  const encoding = headers.get('content-encoding');
  if (encoding !== null && encoding !== 'identity') {
    throw new Problem(
      'unsupported_media_type',
      `The content-encoding ${encoding} is not supported; send the body without one.`,
    );
  }
  const type = headers.get('content-type') ?? '';
  const [, subtype, parameters = ''] = /^\s*application\/([\w.+-]+)\s*(;.*)?$/i.exec(type) ?? [];
  const charset = /charset\s*=\s*"?([\w-]+)/i.exec(parameters)?.[1] ?? 'utf-8';
  if (
    subtype === undefined ||
    !/^(json|json-rpc|[\w.-]+\+json)$/i.test(subtype) ||
    !/^utf-?8$/i.test(charset)
  ) {
    throw new Problem('unsupported_media_type', 'The body must be application/json in UTF-8.');
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    throw new Problem('malformed_json', 'The body is not valid UTF-8.');
  }
}

/**
 * Parses JSON that every parser reads alike (RFC 7493): no duplicate names in an object, no lone surrogates.
 * @throws {Problem} `malformed_json` with the fault or its position; `body_too_large` with too many values
 */
export function parseJson(text: string): unknown {
  requireModerate(text);
  const value = parse(text);
  const fault =
    faultOfNames(text) ??
    (hasLoneSurrogate(text, value)
      ? 'A string in the JSON has an unpaired surrogate, which is half of a character.'
      : null);
  if (fault !== null) throw new Problem('malformed_json', fault);
  return value;
}

/**
 * Returns whether a string in `value` has a lone surrogate. UTF-8 cannot encode it, so it comes from an escape in `text`.
 */
function hasLoneSurrogate(text: string, value: unknown): boolean {
  return /\\u[dD][89a-fA-F]/.test(text) && /(?<!\\)(\\\\)*\\ud[89a-f]/.test(JSON.stringify(value));
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Problem('malformed_json', `The body is not JSON: ${(error as Error).message}`);
  }
}

/**
 * Checks that a JSON text takes little time to parse. Brackets and commas in strings do not count.
 * @throws {Problem} `malformed_json` when it nests too deep; `body_too_large` with too many values
 */
export function requireModerate(text: string): void {
  let depth = 0;
  let separators = 0;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') {
      at = endOfString(text, at);
      continue;
    }
    if (character === '{' || character === '[') {
      if (++depth > DEPTH_LIMIT)
        throw new Problem(
          'malformed_json',
          `The JSON is nested deeper than ${DEPTH_LIMIT} levels at position ${at}.`,
        );
    } else if (character === '}' || character === ']') depth--;
    else if (character !== ',') continue;
    if (++separators > SEPARATORS_LIMIT)
      throw new Problem(
        'body_too_large',
        `The body may have at most ${SEPARATORS_LIMIT} brackets and commas.`,
      );
  }
}

/**
 * Returns the fault of the field names in a valid JSON text: a duplicate in an object, or `__proto__`. Null without a fault.
 */
function faultOfNames(text: string): string | null {
  const open: Set<unknown>[] = [];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '{') open.push(new Set());
    else if (character === '}') open.pop();
    else if (character === '"') {
      const end = endOfString(text, at);
      if (beginsValue(text, end + 1)) {
        const written = text.slice(at, end + 1);
        const fault = faultOfName(written, open.at(-1)!);
        if (fault !== null) return fault;
      }
      at = end;
    }
  }
  return null;
}

function faultOfName(written: string, names: Set<unknown>): string | null {
  const name: unknown = JSON.parse(written);
  if (name === '__proto__') return 'An object in the JSON has the name "__proto__", which is not allowed.';
  const shown = cutText(written, 100, '…');
  if (names.has(name)) return `An object in the JSON has the name ${shown} twice.`;
  names.add(name);
  return null;
}

/** Returns whether the string that ends before `from` is the name of a field: a colon follows it. */
function beginsValue(text: string, from: number): boolean {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++;
  return text[at] === ':';
}
