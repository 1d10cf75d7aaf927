// Serves the vector indexes of one app, at the app's own socket.
import { open, readdir, stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { finished } from 'node:stream/promises';
import { AppCalls, type SharedBudget } from '../app-services/app-calls.ts';
import { answerHttp, bytesOf, type HttpAnswerer } from '../app-services/app-service-http.ts';
import type { SocketHandle } from '../app-services/listening-socket.ts';
import { Quota, type QuotaOptions } from '../disk/quota.ts';
import { log, reason } from '../log.ts';
import type { WorkerThreads } from '../threads/worker.ts';
import {
  diskFull,
  errorBody,
  failed,
  invalid,
  noCapacity,
  quotaExceeded,
  tooLarge,
  VectorsError,
} from './errors.ts';
import { INDEX_HEADER } from './headers.ts';
import type { operate } from './operations.ts';

const OPERATIONS = new URL('./operations.ts', import.meta.url);
/** Maximum bytes of an insert: enough for 5,000 vectors of 768 numbers, or 2,500 of 1,536. */
const REQUEST_BYTES = 64 * 2 ** 20;
/** Maximum bytes of any other request. 5,000 ids as JSON need fewer. */
const ARGUMENTS_BYTES = 4 * 2 ** 20;
/** Maximum concurrent calls of an app. */
const CALLS = 64;
/** Timeout for receiving a request, in ms. */
const REQUEST_MS = 60_000;
/** Timeout for the app to read a response, in ms. */
const RESPONSE_MS = 60_000;
/** Timeout of an operation, in ms, without its wait for a thread. */
const OPERATION_MS = 30_000;
const LIMITS = {
  maxHeaderSize: 16_384,
  headersTimeout: REQUEST_MS,
  requestTimeout: REQUEST_MS,
  // Also ends a call that waits so long for a thread.
  silenceMs: 2 * 60_000,
  connections: 256,
};
const INDEX = /^[0-9a-z]{1,64}$/;
/** Operations that insert vectors. */
const INSERTING = ['insert', 'upsert'];
/** Operations that may need more disk space. */
const GROWING = [...INSERTING, 'addProperty'];
/** Operations that change an index. They run one by one for each index. */
const CHANGING = [...GROWING, 'deleteByIds', 'removeProperty', 'configure'];

export interface VectorsShared extends SharedBudget {
  threads: WorkerThreads;
  limits: QuotaOptions;
}

export class AppServer {
  readonly #directory: string;
  readonly #shared: VectorsShared;
  readonly #calls: AppCalls;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<string>>();
  readonly #quota: Quota;

  private constructor(directory: string, shared: VectorsShared) {
    this.#directory = directory;
    this.#shared = shared;
    const tooMany = `an app may make at most ${CALLS} calls of the vectors service at a time`;
    this.#quota = new Quota(join(directory, '..'), shared.limits, {
      tooMuch: (maxMb) =>
        quotaExceeded(`the vectors of this app may have at most ${maxMb} MiB in all (RUNNER_APP_MAX_MB)`),
      diskFull: (floorMb) =>
        diskFull(`the disk of this machine is almost full (RUNNER_DISK_FLOOR_MB is ${floorMb})`),
    });
    this.#calls = new AppCalls(shared, { atOnce: CALLS, tooMany, noCapacity, refuse });
  }

  /**
   * Listens at a socket that only the app can reach.
   * @param directory the directory of the app's indexes
   */
  static async listen(
    listener: SocketHandle,
    directory: string,
    shared: VectorsShared,
  ): Promise<HttpAnswerer> {
    const server = new AppServer(directory, shared);
    const answerer = await answerHttp(
      listener,
      LIMITS,
      (request, response) => void server.#answer(request, response),
    );
    return {
      close: async () => {
        server.#closing.abort(new Error('the app is closed'));
        await answerer.close();
        // The files may be moved only after the running operations: SQLite removes its log by path when it closes an index.
        await Promise.allSettled(server.#running);
      },
    };
  }

  #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { owner, threads } = this.#shared;
    return this.#calls.run(request, response, async (held, left) => {
      const operation = new URL(request.url!, 'http://vectors').pathname.slice(1);
      const index = request.headers[INDEX_HEADER];
      if (typeof index !== 'string' || !INDEX.test(index)) throw invalid('the call names no index');
      const isInsert = INSERTING.includes(operation);
      const most = isInsert ? REQUEST_BYTES : ARGUMENTS_BYTES;
      const body = await bytesOf(request, {
        bytes: most,
        tooLarge: () =>
          tooLarge(
            `a call may have at most ${most} bytes${isInsert ? '; insert fewer vectors at once' : ''}`,
          ),
        held,
      });
      const file = join(this.#directory, `${index}.sqlite`);
      const contentType = request.headers['content-type'] ?? '';
      const given = new Uint8Array(body);
      const work = () =>
        threads.run<typeof operate>(OPERATIONS, 'operate', [{ file, operation, contentType, body: given }], {
          deadlineMs: OPERATION_MS,
          owner,
          ...(CHANGING.includes(operation) && { key: file }),
          errors: [VectorsError],
          transfer: [given.buffer],
          signal: AbortSignal.any([left, this.#closing.signal]),
        });
      const running = GROWING.includes(operation)
        ? this.#quota.during(body.length, () => usedBytes(this.#directory, file), work)
        : work();
      this.#running.add(running);
      const text = await running.finally(() => this.#running.delete(running));
      const bytes = Buffer.from(text);
      held.take(bytes.length);
      held.check();
      response
        .writeHead(200, { 'content-type': 'application/json', 'content-length': bytes.length })
        .end(bytes);
      // The response counts towards the memory budget until it is sent.
      await finished(response, { signal: AbortSignal.timeout(RESPONSE_MS) }).catch(() => response.destroy());
    });
  }
}

/** Returns the bytes of all indexes, without the free pages of `file`: new vectors use these first. */
async function usedBytes(directory: string, file: string): Promise<number> {
  const [size, free] = await Promise.all([sizeOf(directory), freeBytes(file)]);
  return size - free;
}

/** Returns the bytes of the free pages of an SQLite file, which has them after deletions; 0 without a file. */
async function freeBytes(file: string): Promise<number> {
  await using opened = await open(file).catch(() => null);
  const head = Buffer.alloc(100);
  await opened?.read(head, 0, head.length, 0);
  const pageBytes = head.readUInt16BE(16);
  // SQLite stores 65,536 as 1.
  return (pageBytes === 1 ? 65_536 : pageBytes) * head.readUInt32BE(36);
}

async function sizeOf(directory: string): Promise<number> {
  const names = await readdir(directory).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      stat(join(directory, name)).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}

function refuse(response: ServerResponse, error: unknown): void {
  if (!(error instanceof VectorsError))
    log('warn', 'a call of the vectors service failed', { error: reason(error) });
  if (response.headersSent) return void response.destroy();
  const refusal =
    error instanceof VectorsError ? error : failed('the vectors service failed, or took too long');
  response.writeHead(refusal.status, { 'content-type': 'application/json' }).end(errorBody(refusal));
}
