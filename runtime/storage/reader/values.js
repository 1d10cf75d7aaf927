// Converts to JSON: values of SQLite, and values that objects have stored in V8's format.
import { deserialized } from './serialized.js';

/** Maximum bytes of a value in a list of keys. A larger value is left out. */
export const LISTED_BYTES = 64 * 1024;
/** Maximum nesting of a value. Deeper values become `{ $deep: true }`. */
const DEPTH = 100;

export function sqlValue(value) {
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : { $bigint: String(value) };
  }
  if (typeof value === 'number') return numberValue(value);
  if (value instanceof Uint8Array) return { $bytes: toBase64(value) };
  return typeof value === 'string' ? value.toWellFormed() : value;
}

/** Converts the output of `sqlValue` back for SQLite. */
export function bound(value) {
  if (Number.isSafeInteger(value)) return BigInt(value);
  if (typeof value !== 'object' || value === null) return value;
  if ('$bigint' in value) return BigInt(value.$bigint);
  if ('$number' in value) return Number(value.$number);
  return Buffer.from(value.$bytes, 'base64');
}

function numberValue(value) {
  if (Number.isFinite(value) && !Object.is(value, -0)) return value;
  return { $number: Object.is(value, -0) ? '-0' : String(value) };
}

function toBase64(view) {
  return Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('base64');
}

/** Converts an object's stored value to JSON, in the form of docs/storage.md. */
export function keptValue(value, path = '$', above = new Map()) {
  if (value === undefined) return { $undefined: true };
  if (typeof value === 'bigint') return { $bigint: String(value) };
  if (typeof value === 'number') return numberValue(value);
  if (typeof value === 'string') return value.toWellFormed();
  if (value === null || typeof value !== 'object') return value;
  if (above.has(value)) return { $ref: above.get(value) };
  if (above.size >= DEPTH) return { $deep: true };
  above.set(value, path);
  try {
    return objectValue(value, path, above);
  } finally {
    above.delete(value);
  }
}

function objectValue(value, path, above) {
  const inner = (name, child) => keptValue(child, `${path}[${JSON.stringify(name)}]`, above);
  if (Array.isArray(value)) return Array.from(value, (child, n) => inner(n, child));
  if (value instanceof Date)
    return { $date: Number.isNaN(value.getTime()) ? 'invalid' : value.toISOString() };
  if (value instanceof Map)
    return { $map: [...value].map(([key, child], n) => [inner(n, key), inner(n, child)]) };
  if (value instanceof Set) return { $set: [...value].map((child, n) => inner(n, child)) };
  if (value instanceof RegExp) return { $regexp: String(value).toWellFormed() };
  if (value instanceof Error) return { $error: { name: String(value.name), message: String(value.message) } };
  if (value instanceof ArrayBuffer || value instanceof SharedArrayBuffer)
    return { $bytes: Buffer.from(value).toString('base64'), type: 'ArrayBuffer' };
  if (ArrayBuffer.isView(value)) return { $bytes: toBase64(value), type: value.constructor.name };
  if (
    value instanceof Number ||
    value instanceof String ||
    value instanceof Boolean ||
    value instanceof BigInt
  )
    return keptValue(value.valueOf(), path, above);
  const entries = Object.entries(value);
  // An object with such a name is escaped: otherwise it could look like one of the forms above.
  if (entries.some(([name]) => name.startsWith('$')))
    return { $object: entries.map(([name, child]) => [name.toWellFormed(), inner(name, child)]) };
  return Object.fromEntries(entries.map(([name, child]) => [name.toWellFormed(), inner(name, child)]));
}

export function decoded(serialized) {
  try {
    return keptValue(deserialized(serialized));
  } catch (error) {
    return { $unreadable: String(error.message), $bytes: toBase64(serialized) };
  }
}
