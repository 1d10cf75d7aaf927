// Uploads of files into buckets. They continue while other screens are open, until the page is left. Large files are
// multipart uploads, which resume after the last finished part.
import { signal } from '@preact/signals';
import { R2_PARTS } from '../../../handlers/contract/sizes.ts';
import { api, Failure, putBytes, type Result } from '../../api.ts';
import { flushRemovals } from '../../removals.ts';

const MIB = 1024 * 1024;
/**
 * Files up to this size, in bytes, are uploaded in one request. Larger files use parts of this size, or larger parts if
 * there would be more than `R2_PARTS`.
 */
const PART_BYTES = 8 * MIB;
/** Delays between retries, in ms. */
const RETRY_MS = { first: 1_000, most: 30_000 };
const RETRYABLE_STATUSES: readonly number[] = [408, 429, 500, 502, 503, 504];
const RETRYABLE_CODES: readonly Failure['code'][] = ['offline', 'bad_request', 'idempotency_in_progress'];

export interface Upload {
  id: number;
  app: string;
  bucket: string;
  key: string;
  file: File;
  /** Bytes sent so far. */
  sent: number;
  /** `broken`: waits for an automatic retry. `failed`: a person must retry. `words` has the reason for both. */
  state: 'waiting' | 'sending' | 'broken' | 'failed';
  words: string | null;
}

/** The finished parts of a multipart upload. */
interface Begun {
  upload_id: string;
  parts: { part: number; etag: string }[];
}

/** All unfinished and failed uploads, oldest first. */
export const uploads = signal<readonly Upload[]>([]);
/** The upload that finished last. */
export const uploaded = signal<Pick<Upload, 'app' | 'bucket' | 'key'> | null>(null);

const begun = new Map<number, Begun>();
const running = new Map<number, AbortController>();
const tryNow = new Map<number, () => void>();
let last = 0;
let turn: Promise<unknown> = Promise.resolve();

/** Returns the URL for GET and PUT of an object's bytes. */
export function rawUrl(app: string, bucket: string, key: string): string {
  const query = new URLSearchParams({ key });
  return `/v1/apps/${encodeURIComponent(app)}/storage/r2/${encodeURIComponent(bucket)}/raw?${query}`;
}

/** Uploads files into a folder of a bucket, one after another. */
export function upload(to: { app: string; bucket: string; prefix: string }, files: readonly File[]) {
  const { app, bucket, prefix } = to;
  const more = files.map((file): Upload => {
    const key = prefix + file.name;
    return { id: ++last, app, bucket, key, file, sent: 0, state: 'waiting', words: null };
  });
  uploads.value = [...uploads.peek(), ...more];
  for (const { id } of more) queue(id);
}

/** Retries an upload now, if it waits for a retry or has failed. */
export function goOn(id: number) {
  const isFailed = find(id)?.state === 'failed';
  if (!isFailed) return tryNow.get(id)?.();
  change(id, { state: 'waiting', words: null });
  queue(id);
}

/** Cancels an upload, and drops its finished parts. */
export function cancel(id: number) {
  const ended = find(id);
  running.get(id)?.abort();
  drop(id);
  const known = begun.get(id);
  begun.delete(id);
  if (ended === undefined || known === undefined) return;
  // If this fails, the server drops the parts after seven days.
  api('storage.r2.abort_upload', abortOf(ended, known)).catch(() => {});
}

function queue(id: number) {
  turn = turn.then(() => run(id));
}

async function run(id: number): Promise<void> {
  const found = find(id);
  if (found?.state !== 'waiting') return;
  const own = new AbortController();
  running.set(id, own);
  change(id, { state: 'sending' });
  try {
    await send(found, own.signal);
    begun.delete(id);
    drop(id);
    uploaded.value = found;
  } catch (error) {
    // The server has dropped the multipart upload, so a retry starts from the beginning.
    if ((error as Failure).code === 'storage_not_found') begun.delete(id);
    if (!own.signal.aborted) change(id, { state: 'failed', words: (error as Failure).message });
  } finally {
    running.delete(id);
  }
}

async function send(upload: Upload, signal: AbortSignal): Promise<void> {
  const { id, app, bucket, key, file } = upload;
  const url = rawUrl(app, bucket, key);
  const type = file.type || 'application/octet-stream';
  const put = <Answer>(query: string, bytes: Blob, before: number) =>
    withRetries(id, signal, async () => {
      // A part replaces no object until the upload is completed.
      if (query === '') await flushRemovals();
      return putBytes<Answer>(url + query, bytes, {
        type,
        signal,
        onSent: (sent) => change(id, { sent: before + Math.min(sent, bytes.size) }),
      });
    });
  if (file.size <= PART_BYTES) {
    await put('', file, 0);
    return;
  }
  const place = { id: app, bucket, key };
  const again = { signal, idempotencyKey: randomKey() };
  let known = begun.get(id);
  if (known === undefined) {
    const { upload_id } = await withRetries(id, signal, () =>
      api('storage.r2.create_upload', { ...place, ...(file.type && { content_type: file.type }) }, again),
    );
    known = { upload_id, parts: [] };
    begun.set(id, known);
  }
  const size = partBytes(file.size);
  for (let from = known.parts.length * size; from < file.size; from += size) {
    const query = `&upload_id=${known.upload_id}&part=${known.parts.length + 1}`;
    const part = file.slice(from, from + size);
    known.parts.push(await put<Begun['parts'][number]>(query, part, from));
  }
  const { upload_id, parts } = known;
  const end = { signal, idempotencyKey: randomKey() };
  await withRetries<Result<'storage.r2.complete_upload'>>(id, signal, () =>
    api('storage.r2.complete_upload', { ...place, upload_id, parts }, end),
  );
}

/** Returns a new idempotency key. Browsers have `crypto.randomUUID` only for HTTPS and localhost. */
function randomKey(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}

/** Returns the part size for a file, in bytes. */
export function partBytes(size: number): number {
  return Math.max(PART_BYTES, Math.ceil(size / R2_PARTS / MIB) * MIB);
}

/** Runs `work` until it succeeds. @throws {Failure} an error that is not retryable @throws the reason of `signal` */
async function withRetries<T>(id: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  for (let wait = RETRY_MS.first; ; wait = Math.min(2 * wait, RETRY_MS.most)) {
    try {
      return await work();
    } catch (error) {
      const isRetryable =
        error instanceof Failure &&
        (RETRYABLE_CODES.includes(error.code) || RETRYABLE_STATUSES.includes(error.status));
      if (signal.aborted || !isRetryable) throw error;
      const words = error.code === 'offline' ? 'The connection was lost.' : error.message;
      change(id, { state: 'broken', words });
      await rest(id, wait, signal);
      signal.throwIfAborted();
      change(id, { state: 'sending', words: null });
    }
  }
}

/** Resolves after a delay in ms, or earlier: when the browser is online again, a person retries, or `signal` aborts. */
function rest(id: number, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      tryNow.delete(id);
      removeEventListener('online', end);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    tryNow.set(id, end);
    addEventListener('online', end);
    signal.addEventListener('abort', end);
  });
}

function find(id: number): Upload | undefined {
  return uploads.peek().find((each) => each.id === id);
}

function change(id: number, to: Partial<Upload>) {
  uploads.value = uploads.peek().map((each) => (each.id === id ? { ...each, ...to } : each));
}

function drop(id: number) {
  uploads.value = uploads.peek().filter((each) => each.id !== id);
}

function abortOf({ app, bucket, key }: Upload, { upload_id }: Begun) {
  return { id: app, bucket, key, upload_id };
}

// Asks before a page with uploads is left, unless all have failed. When it is left, aborts the multipart uploads, so that
// the server drops their parts.
if (typeof window !== 'undefined') {
  addEventListener('beforeunload', (event) => {
    if (uploads.peek().some(({ state }) => state !== 'failed')) event.preventDefault();
  });
  addEventListener('pagehide', () => {
    for (const each of uploads.peek()) {
      const known = begun.get(each.id);
      if (known === undefined) continue;
      const body = { jsonrpc: '2.0', id: 1, method: 'storage.r2.abort_upload', params: abortOf(each, known) };
      const headers = { 'content-type': 'application/json' };
      void fetch('/rpc', { method: 'POST', headers, body: JSON.stringify(body), keepalive: true });
    }
  });
}
