// The interface of an app's R2 buckets, for objects on the disk and in the bucket.
import type { ObjectRow, UsageRow } from '../../../../sqlite/storage/objects.ts';
import type { ResponseWriter } from '../bytes/body.ts';
import type { RequestOf } from '../requests.ts';
import type { Part } from './conditions.ts';
import type { Listed } from './listing.ts';

/** The bytes of a `put`, and their number. */
export interface Body {
  size: number;
  bytes: AsyncIterable<Buffer>;
}

/** An object and its requested part. The bytes stay unchanged until `release`, even if the object is replaced or deleted. */
export interface Found {
  object: ObjectRow;
  part: Part;
  /** Returns the part's bytes for a small object; else a function that copies the part to a response. */
  open: () => Promise<Buffer | ((writer: ResponseWriter) => Promise<void>)>;
  release: () => void;
}

/** Methods throw `R2Error` when they refuse a request. Changes are durable when they resolve. */
export interface ObjectStore {
  head(bucket: string, request: RequestOf<'head'>): Promise<ObjectRow>;
  /** @param onUnmet called with the object when the condition fails */
  get(bucket: string, request: RequestOf<'get'>, onUnmet: (object: ObjectRow) => void): Promise<Found>;
  /** Puts an object. Readers get the previous version until the new one is complete. */
  put(bucket: string, request: RequestOf<'put'>, body: Body): Promise<ObjectRow>;
  /** Deletes objects; missing ones are not an error. */
  delete(bucket: string, request: RequestOf<'delete'>): Promise<void>;
  list(bucket: string, request: RequestOf<'list'>): Promise<Listed>;
  /** @returns the id of the upload */
  createUpload(bucket: string, request: RequestOf<'createMultipartUpload'>): Promise<string>;
  /** @returns the etag of the part */
  uploadPart(bucket: string, request: RequestOf<'uploadPart'>, body: Body): Promise<string>;
  completeUpload(bucket: string, request: RequestOf<'completeMultipartUpload'>): Promise<ObjectRow>;
  abortUpload(bucket: string, request: RequestOf<'abortMultipartUpload'>): Promise<void>;
  /** Returns the usage of each bucket. A bucket without objects may be missing. */
  usage(): Promise<UsageRow[]>;
  /** Returns the bytes of all objects and unfinished uploads. */
  keptBytes(): Promise<number>;
}

/** Opens an app's store when it is needed. */
export interface OpenStores {
  /** Runs `work` with the store open. @throws what it throws */
  during<T>(work: (store: ObjectStore) => Promise<T>): Promise<T>;
  /** `true`: defers removals of unused bytes from now on. `false`: resumes removals. */
  hold(isHeld: boolean): Promise<void>;
  /** Waits for running operations, then closes the store. It cannot be opened again. */
  close(): Promise<void>;
}
