// How much one client may ask, and how fast one account's password may be guessed. Kept in memory: this is one process, and
// to start it again is nobody's to decide who is limited.
import { Problem } from '../problem.ts';

const MINUTE_MS = 60_000;
/** Clients and accounts that are remembered; the oldest are forgotten first. */
const REMEMBERED = 10_000;

/** A refusal that says how long to wait. */
export class TooMany extends Problem {
  readonly seconds: number;
  constructor(seconds: number, why = 'Too many requests.') {
    super('rate_limited', `${why} Try again in ${seconds} s.`);
    this.seconds = seconds;
  }
}

/** Counts per key in windows of a minute. */
export class Limiter {
  readonly #limit: number;
  readonly #windows = new Map<string, { from: number; count: number }>();

  /** @param limit requests per minute; 0 is off */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Counts a request. @returns seconds to wait; 0 when it may pass */
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

/** Failures that cost nothing: people mistype. */
const FREE_FAILURES = 5;
const LONGEST_WAIT_MS = 60_000;
/** Failures are forgotten after this long without an attempt, in ms. */
const FORGET_MS = 60 * 60_000;

/** Makes attempts on one account wait longer with each that fails. */
export class Attempts {
  readonly #accounts = new Map<string, { failures: number; at: number }>();

  /**
   * Counts an attempt as a failure until `succeeded` says otherwise, so that many at once do not all pass.
   * @returns seconds to wait; 0 when it may be made
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
  if (map.size >= REMEMBERED && !oldest.done) map.delete(oldest.value);
  map.set(key, value);
}

/** Who asks, as limits count: an IPv4 address, or the /64 of an IPv6 one. The gateway has said whose the request is. */
export function clientOf(headers: Headers): string {
  const address = headers.get('x-real-ip') ?? '';
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
