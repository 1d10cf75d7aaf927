// A rate limit binding in an app's Worker. Counters are in the process's memory, so a new process starts at zero. Bindings
// with the same namespace share their counters.

/** Allowed windows, in seconds. All keys' windows begin at the same moments. */
const PERIODS = [10, 60];
const OPTIONS = ['key', 'limit', 'period', 'delta'];
/** Maximum number of keys in a window. Beyond it, the oldest keys are dropped, which bounds the app's memory. */
const MOST_KEYS = 20_000;
/** Maximum length of a key, in characters. */
const KEY_LENGTH = 1_024;

/** By namespace and period: the number of the current window, and its counters by key. */
const windows = new Map();

function countsOf(namespace, period) {
  const number = Math.floor(Date.now() / (period * 1_000));
  const name = `${period} ${namespace}`;
  let window = windows.get(name);
  if (window?.number !== number) {
    window = { number, counts: new Map() };
    windows.set(name, window);
  }
  return window.counts;
}

function require(condition, message) {
  if (!condition) throw new TypeError(`limit(): ${message}`);
}

class RateLimit {
  #settings;

  constructor(settings) {
    this.#settings = settings;
  }

  /** Counts a call for `key`. `success`: whether the call is within the limit. A refused call is not counted. */
  async limit(options) {
    require(typeof options === 'object' &&
      options !== null, 'the options must be an object, such as { key }');
    const unknown = Object.keys(options).filter((name) => !OPTIONS.includes(name));
    require(unknown.length === 0, `there is no option ${unknown.join(', ')}`);
    const { namespace, ...settings } = this.#settings;
    const { key = '', limit = settings.limit, period = settings.period, delta = 1 } = options;
    require(typeof key === 'string' &&
      key.length <= KEY_LENGTH, `key must be a string of at most ${KEY_LENGTH} characters`);
    require(Number.isFinite(limit), 'limit must be a number');
    require(PERIODS.includes(period), `period must be ${PERIODS.join(' or ')}`);
    require(Number.isInteger(delta) && delta > 0, 'delta must be a whole number from 1');
    const counts = countsOf(namespace, period);
    const count = counts.get(key) ?? 0;
    if (count >= limit) return { success: false };
    if (count === 0 && counts.size >= MOST_KEYS) counts.delete(counts.keys().next().value);
    counts.set(key, count + delta);
    return { success: true };
  }
}

export default ({ settings }) => new RateLimit(settings);
