// What workerd has written down of a value: V8's own format, with errors in workerd's.
import { Deserializer } from 'node:v8';

/** How workerd marks what V8 does not write by itself: `SERIALIZATION_TAG_NATIVE_ERROR` and that of a DOMException. */
const NATIVE_ERROR = 10;
const DOM_EXCEPTION = 8;
/** In workerd's order. The first stands for any other name, which follows it. */
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
  /** Called by V8 where such a mark stands. */
  _readHostObject() {
    const mark = this.readUint32();
    if (mark === NATIVE_ERROR) return this.#nativeError();
    if (mark === DOM_EXCEPTION) return this.#domException();
    throw new Error(`an object of workerd's own, which its mark ${mark} names`);
  }

  #nativeError() {
    const name = ERROR_NAMES[this.readUint32()] ?? this.readValue();
    const message = this.readValue();
    // Its own properties: its stack, its cause, and what the app added.
    this.readValue();
    return errorNamed(name, message);
  }

  #domException() {
    const [name, message] = [this.#text(), this.#text()];
    // Its stack.
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

/** The value that these bytes stand for. @throws {Error} when they stand for none, or for one that only workerd can make */
export function deserialized(bytes) {
  const reader = new ValueReader(bytes);
  reader.readHeader();
  return reader.readValue();
}
