// The binding of a rate limit, as an app's Worker has it. Counts are kept in memory, by namespace: bindings of the same
// namespace count together, and a new process counts anew.

/** Windows that there may be, in seconds. They begin at the same moments for all keys. */
const PERIODS = [10, 60];
const OPTIONS = ['key', 'limit', 'period', 'delta'];
/** Keys that are counted in a window. Those that were new first are forgotten before the memory of the app is full. */
const MOST_KEYS = 20_000;
/** Characters of a key. */
const KEY_LENGTH = 1_024;

/** By namespace and period: the number of the window, and what was counted in it by key. */
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

  /** Counts `key`. `success`: whether it stays within the limit. What does not is not counted. */
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
