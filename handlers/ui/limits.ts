// Rate limits of clients, and delays against guessing an account's password. The counts are in memory, because one process
// serves all clients of a host, and no client can restart the process.
import { Problem } from '../problem.ts';

const MINUTE_MS = 60_000;
/** Maximum clients, and maximum accounts, in memory. Above the limit, the oldest is dropped. */
const ENTRIES_LIMIT = 10_000;

/** The error `rate_limited`, with the time to wait in seconds. */
export class TooMany extends Problem {
  readonly seconds: number;
  constructor(seconds: number, why = 'Too many requests.') {
    super('rate_limited', `${why} Try again in ${seconds} s.`);
    this.seconds = seconds;
  }
}

/** Counts requests per key in windows of one minute. */
export class Limiter {
  readonly #limit: number;
  readonly #windows = new Map<string, { from: number; count: number }>();

  /** @param limit requests per minute; 0 is off */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Counts a request. @returns seconds to wait; 0 when it is allowed */
  admit(key: string, now: number): number {
    if (this.#limit === 0) return 0;
    const window = this.#windows.get(key);
    if (window === undefined || now - window.from >= MINUTE_MS) {
      this.#windows.delete(key);
      remember(this.#windows, key, { from: now, count: 1 });
      return 0;
    }
    if (window.count >= this.#limit) return secondsUntil(window.from + MINUTE_MS, now);
    window.count++;
    return 0;
  }
}

/** Number of failures without a delay, because people mistype. */
const FREE_FAILURES = 5;
const LONGEST_WAIT_MS = 60_000;
/** Failures are forgotten after this time without an attempt, in ms. */
const FORGET_MS = 60 * 60_000;

/** Delays attempts on an account, twice as long after each further failure, up to `LONGEST_WAIT_MS`. */
export class Attempts {
  readonly #accounts = new Map<string, { failures: number; at: number }>();

  /**
   * Counts an attempt as a failure until `succeeded` is called, so that concurrent attempts do not all pass.
   * @returns seconds to wait; 0 when the attempt is allowed
   */
  begin(account: string, now: number): number {
    const known = this.#accounts.get(account);
    const before = known !== undefined && now - known.at < FORGET_MS ? known : { failures: 0, at: 0 };
    const over = before.failures - FREE_FAILURES;
    const until = over < 0 ? 0 : before.at + Math.min(1000 * 2 ** over, LONGEST_WAIT_MS);
    if (until > now) return secondsUntil(until, now);
    this.#accounts.delete(account);
    remember(this.#accounts, account, { failures: before.failures + 1, at: now });
    return 0;
  }

  succeeded(account: string): void {
    this.#accounts.delete(account);
  }
}

function secondsUntil(then: number, now: number): number {
  return Math.max(1, Math.ceil((then - now) / 1000));
}

function remember<Value>(map: Map<string, Value>, key: string, value: Value): void {
  const oldest = map.keys().next();
  if (map.size >= ENTRIES_LIMIT && !oldest.done) map.delete(oldest.value);
  map.set(key, value);
}

/** Returns a client's IP address from the header that the gateway sets; empty without the header. */
export function addressOf(headers: Headers | undefined): string {
  return headers?.get('x-real-ip') ?? '';
}

/** Returns the text that identifies a client: an IPv4 address, or the first 64 bits of an IPv6 address. */
export function clientOf(headers: Headers): string {
  const address = addressOf(headers);
  if (!address.includes(':')) return address;
  const [head = '', tail] = address.split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - front.length - back.length);
  const groups = [...front, ...Array<string>(zeros).fill('0'), ...back];
  return groups
    .slice(0, 4)
    .map((group) => group.toLowerCase().replace(/^0+(?=.)/, ''))
    .join(':');
}
