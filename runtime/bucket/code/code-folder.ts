// The two parts of an app's folder in the bucket that hold its code: the repository and the releases.
import { dirname } from 'node:path';
import { freeMegabytes } from '../../disk/disk.ts';
import { aborted } from '../../threads/aborted.ts';
import { WorkerThreads } from '../../threads/worker.ts';
import type { S3Place } from '../place.ts';
import { type S3Store, smallObjects, type Tagged } from '../s3-store.ts';
import { MissingObject, type Stored } from '../store.ts';
import { type CodePart, codePlace } from './code-names.ts';
import type * as transfer from './file-transfer.ts';

/** 8 threads, because transfers mostly wait for the network. One account gets at most 4, so that it cannot block others. */
const transfers = new WorkerThreads(8, 4);
const TRANSFER = new URL('./file-transfer.ts', import.meta.url);
/** Timeout of the transfer of one file, in ms. */
const FILE_MS = 30 * 60_000;
/** Timeout of a request for a small object, with its retries, in ms. */
const REQUEST_MS = 20_000;
const BYTES_IN_MB = 2 ** 20;

export function closeTransfers(): void {
  transfers.close();
}

export interface CodeFolderOptions {
  place: S3Place;
  appId: string;
  /** Returns the id of the app's account. */
  owner: () => string;
  /** Resolves with a signal that aborts when the bucket stops answering. @throws {Error} when the bucket may not be used */
  ready: () => Promise<AbortSignal>;
  /** Disk space that must stay free, in MiB. */
  floorMb: number;
}

export class CodeFolder {
  readonly #place: S3Place;
  readonly #store: S3Store;
  readonly #ready: () => Promise<AbortSignal>;
  readonly #owner: () => string;
  readonly #floorMb: number;

  /** @param part the subfolder of the app's folder */
  constructor({ place, appId, owner, ready, floorMb }: CodeFolderOptions, part: CodePart) {
    this.#place = codePlace(place, appId, part);
    this.#store = smallObjects(this.#place);
    this.#ready = ready;
    this.#owner = owner;
    this.#floorMb = floorMb;
  }

  /** Returns an object's full name in the bucket, for messages. */
  nameOf(name: string): string {
    return this.#place.prefix + name;
  }

  /** Returns a small object; null when it is missing. */
  read(name: string): Promise<Tagged | null> {
    return this.#request(() => this.#store.readTagged(name).catch(unlessMissing(null)));
  }

  /** As `S3Store.writeIf`. After an error other than {ChangedObject}, the object may have been written. */
  writeIf(name: string, bytes: Buffer<ArrayBuffer>, etag: string | null): Promise<string> {
    return this.#request(() => this.#store.writeIf(name, bytes, etag));
  }

  has(name: string): Promise<boolean> {
    return this.#request(() => this.#store.has(name));
  }

  list(folder = ''): Promise<Stored[]> {
    return this.#request(() => this.#store.list(folder));
  }

  remove(name: string): Promise<void> {
    return this.#request(() => this.#store.remove(name));
  }

  /** Writes a file as an object. @throws the reason of an aborted `signal` */
  async send(name: string, path: string, signal?: AbortSignal): Promise<void> {
    const lost = await this.#ready();
    const either = AbortSignal.any(signal === undefined ? [lost] : [lost, signal]);
    const job = { deadlineMs: FILE_MS, owner: this.#owner(), signal: either };
    await transfers.run<typeof transfer.sendFile>(TRANSFER, 'sendFile', [this.#place, name, path], job);
  }

  /** Returns how many MiB of files from the bucket fit on a directory's disk. @throws {Error} when there is no room */
  roomMb(directory: string): number {
    const room = freeMegabytes(directory) - this.#floorMb;
    if (room > 0) return room;
    throw new Error(
      `the disk of this machine has no space for code from the bucket, because ${this.#floorMb} MiB must stay free (RUNNER_DISK_FLOOR_MB): free disk space`,
    );
  }

  /** Reads an object into a new file, and syncs it. @throws {MissingObject}; {Error} when the disk has no room for it */
  async receive(name: string, path: string): Promise<void> {
    const signal = await this.#ready();
    const mostBytes = this.roomMb(dirname(path)) * BYTES_IN_MB;
    const job = { deadlineMs: FILE_MS, owner: this.#owner(), signal, errors: [MissingObject] };
    const values = [this.#place, name, path, mostBytes] as const;
    await transfers.run<typeof transfer.receiveFile>(TRANSFER, 'receiveFile', [...values], job);
  }

  async #request<T>(ask: () => Promise<T>): Promise<T> {
    const lost = await this.#ready();
    return Promise.race([ask(), aborted(AbortSignal.any([lost, AbortSignal.timeout(REQUEST_MS)]))]);
  }
}

function unlessMissing<T>(otherwise: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof MissingObject) return otherwise;
    throw error;
  };
}
