// Calls the host about an app's buckets.
import { OBJECT_DEADLINE_MS, READ_DEADLINE_MS, SOURCE_DEADLINE_MS } from '../../contract/host/deadlines.ts';
import type { HostCalls, HostObject, UploadedPart } from '../../contract/host/host-routes.ts';
import type { Part } from '../../range.ts';
import { type HostConnection, maybeDone, type Query } from './connection.ts';

/** Options of all calls about bucket objects. */
const BUCKET = {
  refusals: [
    'storage_not_found',
    'transition_conflict',
    'quota_exceeded',
    'invalid_input',
    'bad_request',
    'request_timeout',
  ],
} as const;

interface ObjectPlace {
  bucket: string;
  key: string;
}

export class Buckets {
  readonly #host: HostConnection;

  constructor(host: HostConnection) {
    this.#host = host;
  }

  /** Returns a page of a bucket's objects. @throws {Problem} `storage_not_found` */
  async list(appId: string, query: Query): Promise<HostCalls['GET /apps/:id/r2/list']['answer']> {
    return this.#host.json('GET /apps/:id/r2/list', [appId], { ...BUCKET, query });
  }

  /** @throws {Problem} `storage_not_found` */
  async head(appId: string, { bucket, key }: ObjectPlace): Promise<HostObject> {
    return this.#host.json('GET /apps/:id/r2/head', [appId], { ...BUCKET, query: { bucket, key } });
  }

  /** Returns a range of an object as a body to forward. @throws {Problem} `transition_conflict` when its etag has changed */
  async bytes(appId: string, query: ObjectPlace & Part & { etag: string }): Promise<Response> {
    return this.#host.call('GET /apps/:id/r2/bytes', [appId], {
      ...BUCKET,
      query: { ...query },
      deadlineMs: OBJECT_DEADLINE_MS,
    });
  }

  /**
   * Puts an object.
   * @param bytes with a known length
   * @throws {Problem} `storage_not_found`, `quota_exceeded`, `invalid_input`, `request_timeout`
   */
  async put(
    appId: string,
    { bucket, key }: ObjectPlace,
    described: object,
    bytes: Blob | ReadableStream<Uint8Array>,
  ): Promise<HostObject> {
    const query = { bucket, key, described: JSON.stringify(described) };
    const options = { ...BUCKET, query, bytes, deadlineMs: OBJECT_DEADLINE_MS };
    return this.#host.json('PUT /apps/:id/r2/object', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found`, `quota_exceeded`, `invalid_input` */
  async createUpload(
    appId: string,
    { bucket, key }: ObjectPlace,
    described: object,
  ): Promise<{ upload_id: string }> {
    const query = { bucket, key, described: JSON.stringify(described) };
    return this.#host.json('POST /apps/:id/r2/uploads', [appId], { ...BUCKET, query }).catch(maybeDone);
  }

  /** Puts a part of an upload. @param bytes with a known length @throws {Problem} as `put` */
  async putPart(
    appId: string,
    { bucket, key }: ObjectPlace,
    of: { upload: string; part: number },
    bytes: ReadableStream<Uint8Array>,
  ): Promise<UploadedPart> {
    const options = { ...BUCKET, query: { bucket, key, ...of }, bytes, deadlineMs: SOURCE_DEADLINE_MS };
    return this.#host.json('PUT /apps/:id/r2/part', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found`, `invalid_input` */
  async completeUpload(
    appId: string,
    { bucket, key }: ObjectPlace,
    upload: string,
    body: UploadedPart[],
  ): Promise<HostObject> {
    const options = { ...BUCKET, query: { bucket, key, upload }, body, deadlineMs: READ_DEADLINE_MS };
    return this.#host.json('POST /apps/:id/r2/complete', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found` */
  async abortUpload(appId: string, { bucket, key }: ObjectPlace, upload: string): Promise<void> {
    const options = { ...BUCKET, query: { bucket, key, upload } };
    await this.#host.call('DELETE /apps/:id/r2/upload', [appId], options).catch(maybeDone);
  }

  /** @throws {Problem} `storage_not_found` */
  async delete(appId: string, { bucket, key }: ObjectPlace): Promise<void> {
    const options = { ...BUCKET, query: { bucket, key } };
    await this.#host.call('DELETE /apps/:id/r2/object', [appId], options).catch(maybeDone);
  }
}
