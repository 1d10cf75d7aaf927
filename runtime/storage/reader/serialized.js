// Decodes values that workerd serialized: V8's format, with tags of workerd for errors.
import { Deserializer } from 'node:v8';

/** workerd's tag for errors, which V8 does not serialize: `SERIALIZATION_TAG_NATIVE_ERROR`. */
const NATIVE_ERROR = 10;
/** workerd's tag for a DOMException. */
const DOM_EXCEPTION = 8;
/** Names of errors, in the order of workerd's numbers for them. After the number 0, the name follows in the bytes. */
const ERROR_NAMES = [
  null,
  'Error',
  'TypeError',
  'RangeError',
  'ReferenceError',
  'SyntaxError',
  'CompileError',
  'LinkError',
  'RuntimeError',
  'SuspendError',
  'EvalError',
  'URIError',
  'AggregateError',
  'SuppressedError',
];

class ValueReader extends Deserializer {
  /** Called by V8 at a tag for workerd's own values. */
  _readHostObject() {
    const mark = this.readUint32();
    if (mark === NATIVE_ERROR) return this.#nativeError();
    if (mark === DOM_EXCEPTION) return this.#domException();
    throw new Error(`an object of workerd's own type ${mark}`);
  }

  #nativeError() {
    const name = ERROR_NAMES[this.readUint32()] ?? this.readValue();
    const message = this.readValue();
    // Skips the error's own properties: stack, cause, and those that the app added.
    this.readValue();
    return errorNamed(name, message);
  }

  #domException() {
    const [name, message] = [this.#text(), this.#text()];
    // Skips the stack.
    this.#text();
    return errorNamed(name, message);
  }

  #text() {
    return this.readRawBytes(this.readUint32()).toString('utf8');
  }
}

function errorNamed(name, message) {
  return Object.assign(new Error(String(message)), { name: String(name) });
}

/** Deserializes a value. @throws {Error} for invalid bytes, or a value that only workerd can create */
export function deserialized(bytes) {
  const reader = new ValueReader(bytes);
  reader.readHeader();
  return reader.readValue();
}
