// A rate limit binding in an app's Worker. Counters are in memory, by namespace: bindings of one namespace share them, and a
// new process starts at zero.

/** Allowed windows, in seconds. All keys' windows begin at the same moments. */
const PERIODS = [10, 60];
const OPTIONS = ['key', 'limit', 'period', 'delta'];
/** Most keys in a window. The oldest are dropped, which bounds the app's memory. */
const MOST_KEYS = 20_000;
/** Longest key, in characters. */
const KEY_LENGTH = 1_024;

/** By namespace and period: the window's number and its counters by key. */
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

  /** Counts `key`. `success`: whether it is within the limit. Refused calls are not counted. */
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
