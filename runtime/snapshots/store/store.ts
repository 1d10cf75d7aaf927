// Where snapshots are kept: a place for objects by name, each written whole or not at all.
/** An object as it is listed. */
export interface Stored {
  name: string;
  bytes: number;
  /** When it was written, in ms since 1970. */
  writtenAt: number;
}

export interface Store {
  /** The objects of a folder, such as `packs/`, by name. */
  list(folder: string): Promise<Stored[]>;
  /** @returns the object's bytes, or a part of them. @throws {MissingObject} */
  read(name: string, part?: { offset: number; length: number }): Promise<Buffer>;
  /** Writes an object whole or not at all, also through a power cut. One that is there already is replaced. */
  write(name: string, bytes: Buffer<ArrayBuffer>): Promise<void>;
  /** Removes an object. One that is not there is no error. */
  remove(name: string): Promise<void>;
}

/** What is in this folder was left by a snapshot that did not end. */
export const UNFINISHED = 'unfinished/';

/** There is no object of this name. */
export class MissingObject extends Error {
  constructor(name: string) {
    super(`${name} is missing`);
  }
}
