// Implements `caches`: an app's responses on its disk, with a size limit and LRU eviction. workerd itself refuses
// uncacheable responses (methods other than GET, 206, `Vary: *`) before it asks here.

import { DurableObject, env } from 'cloudflare:workers';
import { ageOf, isSameVersion, isUnchanged, rangeOf, readHead } from './http-caching.js';

/** Limit of `#bytes`. */
const MAX_BYTES = env.MAX_BYTES;
/** Maximum size of one response's body, in bytes. A larger one would evict most other responses. */
const ENTRY_BYTES = MAX_BYTES / 2;
/** Approximate bytes of a response besides body, key and head. */
const OVERHEAD_BYTES = 1_024;
/** Size of a row, which holds a part of a body, in bytes. */
const ROW_BYTES = 512 * 1024;
/** Maximum size of a response's status line and headers, in bytes. */
const HEAD_BYTES = 64 * 1024;
/** Maximum size of one read, in bytes. */
const CHUNK_BYTES = 64 * 1024;
/** The time of the last use is updated at most once in this time, in ms, because each update is a write. */
const USE_MS = 60_000;

const SCHEMA = `
CREATE TABLE IF NOT EXISTS responses (
  key TEXT PRIMARY KEY,
  id INTEGER NOT NULL UNIQUE,
  status INTEGER NOT NULL,
  headers TEXT NOT NULL,
  length INTEGER NOT NULL,
  size INTEGER NOT NULL,
  stored_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  used_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS response_expiry ON responses (expires_at);
CREATE INDEX IF NOT EXISTS response_use ON responses (used_at);
CREATE TABLE IF NOT EXISTS rows (id INTEGER, n INTEGER, bytes BLOB NOT NULL, PRIMARY KEY (id, n)) WITHOUT ROWID;
`;

export default {
  fetch(request) {
    return env.STORE.getByName('cache').fetch(request);
  },
};

export class CacheStore extends DurableObject {
  #sql;
  /** Bytes of cached responses with their overhead, of bodies being written, and of removed bodies that are still read. */
  #bytes;
  #lastId;
  /** Bodies being read, by id: the number of readers, and whether to remove the body's rows afterwards. */
  #readers = new Map();

  constructor(context, bindings) {
    super(context, bindings);
    this.#sql = context.storage.sql;
    this.#sql.exec(SCHEMA);
    // Removes rows of responses that a killed process did not finish.
    this.#sql.exec('DELETE FROM rows WHERE id NOT IN (SELECT id FROM responses)');
    const { bytes, last } = this.#sql
      .exec('SELECT coalesce(sum(size), 0) AS bytes, coalesce(max(id), 0) AS last FROM responses')
      .one();
    this.#bytes = bytes;
    this.#lastId = last;
    this.#makeRoom();
  }

  async fetch(request) {
    // A request's own key replaces its URL, as on Cloudflare.
    const name = request.cf?.cacheKey || request.url;
    const key = `${request.headers.get('cf-cache-namespace') ?? ''}\n${name}`;
    if (request.method === 'GET') return this.#match(key, request.headers);
    if (request.method === 'PURGE') return new Response(null, { status: this.#remove(key) ? 200 : 404 });
    if (request.method === 'PUT') return this.#put(key, request.body);
    return new Response(null, { status: 405 });
  }

  #match(key, asked) {
    const now = Date.now();
    const [entry] = this.#sql
      .exec('SELECT * FROM responses WHERE key = ? AND expires_at > ?', key, now)
      .toArray();
    if (entry === undefined)
      return new Response(null, { status: 504, headers: { 'cf-cache-status': 'MISS' } });
    if (entry.used_at < now - USE_MS)
      this.#sql.exec('UPDATE responses SET used_at = ? WHERE key = ?', now, key);
    const headers = new Headers(JSON.parse(entry.headers));
    const size = entry.length;
    headers.set('cf-cache-status', 'HIT');
    headers.set('age', String(Math.floor((now - entry.stored_at) / 1000)));
    if (isUnchanged(asked, headers)) return new Response(null, { status: 304, headers });
    const hasRange = entry.status === 200 && isSameVersion(asked, headers);
    const range = hasRange ? rangeOf(asked.get('range'), size) : null;
    if (range === 'unsatisfiable')
      return new Response(null, {
        status: 416,
        headers: { 'content-range': `bytes */${size}`, 'cf-cache-status': 'HIT' },
      });
    const { start, end } = range ?? { start: 0, end: size };
    if (range !== null) headers.set('content-range', `bytes ${start}-${end - 1}/${size}`);
    headers.set('content-length', String(end - start));
    const status = range === null ? entry.status : 206;
    const hasBody = ![101, 204, 205, 304].includes(status);
    // The body is stored with the encoding of its `content-encoding`, so it must not be encoded again.
    return new Response(hasBody ? this.#body(entry, start, end) : null, {
      status,
      headers,
      encodeBody: 'manual',
    });
  }

  /** Streams a part of a body. Its rows are not removed before all its readers have ended. */
  #body({ id, length }, start, end) {
    let at = start;
    const reader = this.#readers.get(id) ?? { count: 0, isGone: false };
    reader.count++;
    this.#readers.set(id, reader);
    const ended = () => {
      reader.count--;
      if (reader.count > 0) return;
      this.#readers.delete(id);
      if (reader.isGone) this.#removeRows(id, length);
    };
    const { readable, writable } = new FixedLengthStream(end - start);
    const write = async () => {
      const writer = writable.getWriter();
      try {
        while (at < end) {
          const n = Math.floor(at / ROW_BYTES);
          const { bytes } = this.#sql.exec('SELECT bytes FROM rows WHERE id = ? AND n = ?', id, n).one();
          const from = at - n * ROW_BYTES;
          const piece = new Uint8Array(bytes, from, Math.min(bytes.byteLength - from, end - at));
          at += piece.byteLength;
          await writer.write(piece);
        }
        await writer.close();
      } catch (error) {
        // Usually because the client disconnected.
        writer.abort(error).catch(() => {});
      } finally {
        ended();
      }
    };
    this.ctx.waitUntil(write());
    return readable;
  }

  async #put(key, body) {
    const id = ++this.#lastId;
    let taken = 0;
    let head = null;
    let isRefused = false;
    const rows = new Rows((n, bytes) => {
      taken += bytes.byteLength;
      this.#bytes += bytes.byteLength;
      this.#makeRoom();
      // Still over the limit: only bodies being written or read are left, and these cannot be evicted.
      if (this.#bytes > MAX_BYTES) isRefused = true;
      else this.#sql.exec('INSERT INTO rows VALUES (?, ?, ?)', id, n, bytes);
    });
    try {
      for await (const chunk of chunksOf(body)) {
        // A refused body is still read to its end, so that `put()` of the app does not fail.
        if (isRefused) continue;
        const rest = head === null ? rows.addHead(chunk) : chunk;
        if (rest !== null) {
          head ??= { ...readHead(rows.head), age: 0 };
          head.age ||= ageOf(head);
          rows.add(rest);
        }
        isRefused ||=
          rows.head.byteLength > HEAD_BYTES || rows.length > ENTRY_BYTES || (head !== null && head.age <= 0);
      }
      if (!isRefused) rows.end();
      if (isRefused || head === null) return new Response(null, { status: 413 });
      this.#keep(key, id, head, rows.length);
      taken = 0;
      return new Response(null, { status: 204 });
    } finally {
      if (taken > 0) this.#removeRows(id, taken);
    }
  }

  #keep(key, id, { status, headers, age }, length) {
    const now = Date.now();
    const text = JSON.stringify(headers);
    // The key is stored twice: in the table and in its index.
    const besides = OVERHEAD_BYTES + 2 * bytesOf(key) + bytesOf(text);
    this.ctx.storage.transactionSync(() => {
      this.#remove(key);
      this.#sql.exec(
        'INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
        ...[key, id, status, text, length, length + besides, now, now + age * 1000, now],
      );
    });
    this.#bytes += besides;
    this.#makeRoom();
  }

  #remove(key) {
    const [removed] = this.#sql
      .exec('DELETE FROM responses WHERE key = ? RETURNING id, length, size, expires_at', key)
      .toArray();
    if (removed === undefined) return false;
    const { id, length, size, expires_at } = removed;
    this.#bytes -= size - length;
    const reader = this.#readers.get(id);
    if (reader !== undefined) reader.isGone = true;
    else this.#removeRows(id, length);
    return expires_at > Date.now();
  }

  /** Removes the rows of a body. @param length their size, in bytes */
  #removeRows(id, length) {
    this.#bytes -= length;
    this.#sql.exec('DELETE FROM rows WHERE id = ?', id);
  }

  #makeRoom() {
    if (this.#bytes <= MAX_BYTES) return;
    const keys = (query, ...values) => this.#sql.exec(query, ...values).toArray();
    for (const { key } of keys('SELECT key FROM responses WHERE expires_at <= ?', Date.now()))
      this.#remove(key);
    while (this.#bytes > MAX_BYTES) {
      const [oldest] = keys('SELECT key FROM responses ORDER BY used_at, id LIMIT 1');
      if (oldest === undefined) return;
      this.#remove(oldest.key);
    }
  }
}

/**
 * Yields a body's chunks in one reused buffer: a chunk is valid until the next. With a buffer for each chunk, memory use
 * would grow, because V8 would free the buffers late.
 */
async function* chunksOf(body) {
  const reader = body.getReader({ mode: 'byob' });
  let memory = new ArrayBuffer(CHUNK_BYTES);
  for (;;) {
    const { value, done } = await reader.read(new Uint8Array(memory));
    if (done) return;
    yield value;
    memory = value.buffer;
  }
}

/** Splits a serialized response: keeps the head in memory, and passes the body to `write` in rows. */
class Rows {
  length = 0;
  head = new Uint8Array(0);
  #row = new Uint8Array(ROW_BYTES);
  #filled = 0;
  #count = 0;
  #write;

  constructor(write) {
    this.#write = write;
  }

  /** Returns the part of a chunk after the head; null while the head is incomplete. */
  addHead(chunk) {
    const before = this.head.byteLength;
    const joined = new Uint8Array(before + chunk.byteLength);
    joined.set(this.head);
    joined.set(chunk, before);
    const end = endOfHead(joined, Math.max(0, before - 3));
    this.head = end === -1 ? joined : joined.subarray(0, end);
    return end === -1 ? null : joined.subarray(end);
  }

  add(chunk) {
    this.length += chunk.byteLength;
    for (let at = 0; at < chunk.byteLength; ) {
      const piece = chunk.subarray(at, at + ROW_BYTES - this.#filled);
      this.#row.set(piece, this.#filled);
      this.#filled += piece.byteLength;
      at += piece.byteLength;
      if (this.#filled === ROW_BYTES) this.end();
    }
  }

  end() {
    if (this.#filled > 0) this.#write(this.#count++, this.#row.subarray(0, this.#filled));
    this.#filled = 0;
  }
}

function bytesOf(text) {
  return new TextEncoder().encode(text).byteLength;
}

function endOfHead(bytes, from) {
  for (let at = bytes.indexOf(13, from); at !== -1; at = bytes.indexOf(13, at + 1))
    if (bytes[at + 1] === 10 && bytes[at + 2] === 13 && bytes[at + 3] === 10) return at + 4;
  return -1;
}
