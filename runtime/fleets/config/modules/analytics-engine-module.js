// An Analytics Engine binding in an app's Worker. It prints each data point as JSON after a marker, and the host reads it
// from the log. Limits and messages are those of workerd.

const MARK = '\u001ecellar ';
const END = '\u001e';
const MEMBERS = 20;
const INDEX_BYTES = 96;
const BLOB_BYTES = 16_384;
/** Maximum length of a data point as JSON, in characters. The host reads at most 64 KiB of a line. */
const LINE_LENGTH = 50_000;
const PREFIX = 'writeDataPoint(): ';

/** Taken before the app's code runs, and before Cellar's entry module wraps `console`. */
const { log } = console;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

function require(condition, message) {
  if (!condition) throw new TypeError(PREFIX + message);
}

function list(event, name, most) {
  const given = event[name] ?? [];
  require(Array.isArray(given), `${name} must be an array.`);
  require(given.length <= most, `Maximum of ${most} ${name} supported.`);
  return given;
}

function textOf(value) {
  if (value === null || value === undefined) return null;
  return value instanceof ArrayBuffer || ArrayBuffer.isView(value) ? decoder.decode(value) : String(value);
}

function bytesOf(text) {
  return text === null ? 0 : encoder.encode(text).length;
}

class AnalyticsEngine {
  #dataset;

  constructor(dataset) {
    this.#dataset = dataset;
  }

  writeDataPoint(event = {}) {
    require(typeof event === 'object' && event !== null, 'the data point must be an object.');
    const index = textOf(list(event, 'indexes', 1)[0]);
    require(bytesOf(index) <= INDEX_BYTES, `Size of indexes[0] exceeds ${INDEX_BYTES} bytes).`);
    const doubles = list(event, 'doubles', MEMBERS).map(Number);
    const blobs = list(event, 'blobs', MEMBERS).map(textOf);
    const point = JSON.stringify({ point: { dataset: this.#dataset, index, doubles, blobs } });
    const bytes = blobs.reduce((sum, blob) => sum + bytesOf(blob), 0);
    require(bytes <= BLOB_BYTES &&
      point.length <= LINE_LENGTH, `Cumulative size of blobs exceeds ${BLOB_BYTES} bytes).`);
    // `console` interprets `%` in its first argument.
    log(MARK + point.replaceAll('%', '\\u0025') + END);
  }
}

export default ({ dataset }) => new AnalyticsEngine(dataset);
