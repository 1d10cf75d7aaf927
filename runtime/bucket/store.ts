// A store of named objects, each written atomically.
/** An object in a list. */
export interface Stored {
  name: string;
  bytes: number;
  /** When it was written, in ms since 1970. */
  writtenAt: number;
  /** The object's ETag; empty for a store without ETags. */
  etag: string;
}

export interface Store {
  /** Returns the objects of a folder, such as `packs/`, sorted by name. */
  list(folder: string): Promise<Stored[]>;
  /** Returns an object's bytes, or the given part of them. @throws {MissingObject} */
  read(name: string, part?: { offset: number; length: number }): Promise<Buffer<ArrayBuffer>>;
  /** Writes an object atomically, even through a power cut. Replaces an existing one. */
  write(name: string, bytes: Buffer<ArrayBuffer>): Promise<void>;
  /** Removes an object. A missing one is not an error. */
  remove(name: string): Promise<void>;
}

/** Folder of the files of snapshots in progress, and of failed ones. */
export const UNFINISHED = 'unfinished/';

export class MissingObject extends Error {
  constructor(name: string) {
    super(`${name} is missing`);
  }
}

/** Returns the result of reading an object; null when the object is missing. */
export async function ifThere<Read>(reading: Promise<Read>): Promise<Read | null> {
  try {
    return await reading;
  } catch (error) {
    if (error instanceof MissingObject) return null;
    throw error;
  }
}

export class ChangedObject extends Error {
  constructor(name: string) {
    super(`${name} was changed by another writer`);
  }
}
