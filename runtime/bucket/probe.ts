// Checks that a store has what workerd and Cellar need: conditional writes, ranges, and lists that are up to date.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { readAtMost } from '../sockets/read-at-most.ts';
import { type BucketFetch, bucketFetch, shownText, storeFailure } from './client.ts';
import type { S3Place } from './place.ts';

/** Concurrent writers of one name. */
const WRITERS = 16;
/** Timeout of one request, in ms. */
const REQUEST_MS = 10_000;
/** Timeout of all checks together, in ms. */
const CHECKS_MS = 60_000;
/** Timeout of a request that measures only the clock, in ms: a slower answer would prove little. */
const CLOCK_MS = 1_000;
/** Pause before a retry, in ms. R2 accepts one write of a name in a second, and answers the next with 429. */
const RETRY_MS = 1_100;
const RETRIES = 2;
/** Statuses of a store that cannot take a request now. */
const BUSY = [429, 503];
/** Timeout to remove one object, in ms. */
const REMOVE_MS = 2_000;
/** Maximum bytes of an answer. */
const ANSWER_BYTES = 64 * 1024;
/** Maximum characters of an answer in a message. */
const SHOWN = 200;

export interface Probed {
  /** How far this machine's clock is ahead of the store's, in ms; negative when it is behind. Exact to half a second. */
  clockMs: number;
}

/** A store that cannot be used, with the failed check. */
export class UnusableStore extends Error {
  /** Whether the store was out of reach or overloaded, so that another try may succeed. */
  readonly isAway: boolean;

  constructor(check: string, why: string, isAway = false) {
    super(`the bucket failed the check "${check}": ${why}`);
    this.isAway = isAway;
  }
}

/**
 * Checks a store: writes, reads, lists and removes some small objects below `probe/`.
 * @throws {UnusableStore} naming the check that failed
 */
export async function probe(place: S3Place): Promise<Probed> {
  const store = new ProbedStore(place);
  const names = { first: store.name('first'), contested: store.name('contested') };
  try {
    const created = await store.put('create if missing', names.first, 'one', { 'if-none-match': '*' }, [200]);
    await store.put('create again if missing', names.first, 'two', { 'if-none-match': '*' }, [412, 409]);
    const updated = await store.put(
      'update if unchanged',
      names.first,
      'three',
      { 'if-match': created.etag },
      [200],
    );
    await store.put(
      'update if unchanged, after a change',
      names.first,
      'four',
      { 'if-match': created.etag },
      [412, 409],
    );
    await store.expect('read', names.first, {}, 'three', 200);
    await store.expect('read a range', names.first, { range: 'bytes=1-3' }, 'hre', 206);
    await store.expectListed('list after a write', names.first, updated.etag);
    await store.contest('one of 16 concurrent writers wins', names.contested);
    return { clockMs: created.clockMs };
  } finally {
    await Promise.all(Object.values(names).map((name) => store.remove(name)));
  }
}

/** Measures `clockMs` of `Probed` with one read. @throws {Error} if no answer with a time comes within `CLOCK_MS` */
export async function measureClock(place: S3Place): Promise<number> {
  const sentAt = Date.now();
  const path = `/${place.prefix}probe/clock`;
  const answer = await bucketFetch(place)(path, {}, AbortSignal.timeout(CLOCK_MS));
  const answeredAt = Date.now();
  await answer.body?.cancel();
  if (!answer.headers.has('date')) throw new Error('the answer has no time');
  return clockOf(answer, { sentAt, answeredAt });
}

function clockOf({ headers }: Response, times: { sentAt: number; answeredAt: number }): number {
  return clockDifference(Date.parse(headers.get('date') ?? ''), times);
}

/**
 * Returns the smallest possible difference by which this machine's clock is ahead of a store's; negative when it is behind.
 * Times are in ms. The result is 0 if the time that the answer took may explain the difference.
 * @param date the store's time in its answer, rounded down to the second; NaN when it is unknown
 */
export function clockDifference(
  date: number,
  { sentAt, answeredAt }: { sentAt: number; answeredAt: number },
) {
  if (Number.isNaN(date)) return 0;
  const middle = date + 500;
  return middle < sentAt ? sentAt - middle : Math.min(0, answeredAt - middle);
}

class ProbedStore {
  readonly #fetch: BucketFetch;
  readonly #folder: string;
  readonly #endsAt = performance.now() + CHECKS_MS;

  constructor(place: S3Place) {
    this.#fetch = bucketFetch(place);
    this.#folder = `${place.prefix}probe/${randomUUID()}/`;
  }

  name(last: string): string {
    return this.#folder + last;
  }

  /** @throws {UnusableStore} unless the status is one of `expected` */
  async put(
    check: string,
    name: string,
    body: string,
    headers: Record<string, string>,
    expected: number[],
  ): Promise<{ etag: string; clockMs: number }> {
    const sentAt = Date.now();
    const answer = await this.#ask(check, `/${name}`, { method: 'PUT', body, headers });
    const answeredAt = Date.now();
    await this.#require(check, answer, expected);
    const clockMs = clockOf(answer, { sentAt, answeredAt });
    return { etag: answer.headers.get('etag') ?? '', clockMs };
  }

  async expect(
    check: string,
    name: string,
    headers: Record<string, string>,
    text: string,
    status: number,
  ): Promise<void> {
    const answer = await this.#ask(check, `/${name}`, { headers });
    const found = await this.#require(check, answer, [status]);
    if (found !== text)
      throw new UnusableStore(
        check,
        `it answered ${JSON.stringify(found.slice(0, SHOWN))} instead of ${JSON.stringify(text)}`,
      );
  }

  async expectListed(check: string, name: string, etag: string): Promise<void> {
    const query = new URLSearchParams({ 'list-type': '2', prefix: this.#folder });
    const xml = await this.#require(check, await this.#ask(check, `?${query}`, {}), [200]);
    const isThere = xml.includes(`<Key>${name}</Key>`) && xml.includes(etag.replaceAll('"', ''));
    if (!isThere) throw new UnusableStore(check, 'the object that was written last is missing from the list');
  }

  /** Has several writers create the same object at once. Only one may succeed, and a read must return its text. */
  async contest(check: string, name: string): Promise<void> {
    const tries = Array.from({ length: WRITERS }, async (_, writer) => {
      const init = { method: 'PUT', body: `writer ${writer}`, headers: { 'if-none-match': '*' } };
      const answer = await this.#ask(check, `/${name}`, init, 0);
      await this.#require(check, answer, [200, 409, 412, ...BUSY]);
      return answer.status === 200 ? writer : null;
    });
    const winners = (await Promise.all(tries)).filter((writer) => writer !== null);
    if (winners.length !== 1) throw new UnusableStore(check, `${winners.length} writers won`);
    await this.expect(check, name, {}, `writer ${winners[0]}`, 200);
  }

  /** Never rejects. */
  async remove(name: string): Promise<void> {
    const signal = AbortSignal.timeout(REMOVE_MS);
    await this.#ask('remove', `/${name}`, { method: 'DELETE', signal }).catch(() => {});
  }

  /** Returns a signal that aborts at the timeout of a request that begins now. */
  #deadline(): AbortSignal {
    const leftMs = Math.max(0, Math.ceil(this.#endsAt - performance.now()));
    return AbortSignal.timeout(Math.min(REQUEST_MS, leftMs));
  }

  async #ask(check: string, path: string, init: RequestInit, retries = RETRIES): Promise<Response> {
    try {
      const { signal, ...rest } = init;
      const answer = await this.#fetch(path, rest, signal ?? this.#deadline());
      if (retries === 0 || !BUSY.includes(answer.status)) return answer;
      await sleep(RETRY_MS);
      return await this.#ask(check, path, init, retries - 1);
    } catch (error) {
      throw new UnusableStore(check, storeFailure(error), true);
    }
  }

  async #require(check: string, answer: Response, expected: number[]): Promise<string> {
    const text = await textOf(answer).catch((error: unknown) => {
      throw new UnusableStore(check, storeFailure(error), true);
    });
    if (text === null) throw new UnusableStore(check, `it answered more than ${ANSWER_BYTES} bytes`);
    if (expected.includes(answer.status)) return text;
    const why = `it answered ${answer.status} and not ${expected.join(' or ')}: ${shownText(text, SHOWN)}`;
    throw new UnusableStore(check, why, answer.status >= 500 || BUSY.includes(answer.status));
  }
}

/** Returns the body of an answer; null when it is too long. */
async function textOf({ body }: Response): Promise<string | null> {
  if (body === null) return '';
  return (await readAtMost(body as AsyncIterable<Buffer>, ANSWER_BYTES))?.toString('utf8') ?? null;
}
