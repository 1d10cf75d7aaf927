// A store of snapshots, and the encryption of its objects with the operator's keys (age identities). `read` and `write` do
// not encrypt or decrypt: their callers use `seal` and `open`.
import { createHash } from 'node:crypto';
import type { Store, Stored } from '../../bucket/store.ts';
import { reason } from '../../log.ts';
import { Damaged, Locked, Unusable } from '../errors.ts';

/** The first bytes of every file that age has encrypted. */
const SEALED = Buffer.from('age-encryption.org/');
/** Matches age's error message when none of the keys fits. */
const NO_KEY_FITS = /no identity matched/;
/** Bytes to read of an encrypted object besides the wanted ones: age's header, and a piece that age reads ahead. */
const READ_AHEAD = 2 * 2 ** 16;

export class SnapshotStore implements Store {
  readonly #store: Store;
  readonly #keys: readonly string[];
  /** Ends the names of packs that the first key has encrypted. Empty without a key. */
  readonly mark: string;

  /** @param keys age identities: the first one encrypts, all decrypt. Empty: nothing is encrypted */
  constructor(store: Store, keys: readonly string[]) {
    this.#store = store;
    this.#keys = keys;
    const [first] = keys;
    // A digest of 256 random bits does not reveal the secret.
    this.mark = first === undefined ? '' : `-${createHash('sha256').update(first).digest('hex').slice(0, 8)}`;
  }

  list(folder: string): Promise<Stored[]> {
    return this.#store.list(folder);
  }

  read(name: string, part?: { offset: number; length: number }): Promise<Buffer<ArrayBuffer>> {
    return this.#store.read(name, part);
  }

  write(name: string, bytes: Buffer<ArrayBuffer>): Promise<void> {
    return this.#store.write(name, bytes);
  }

  remove(name: string): Promise<void> {
    return this.#store.remove(name);
  }

  /** Encrypts the content of an object. Without a key it stays as it is. @throws {Unusable} when the key is invalid */
  async seal(content: Buffer<ArrayBuffer>): Promise<Buffer<ArrayBuffer>> {
    const [key] = this.#keys;
    if (key === undefined) return content;
    const { Encrypter, identityToRecipient } = await loadAge();
    const encrypter = new Encrypter();
    encrypter.addRecipient(await identityToRecipient(key).catch(invalid));
    return asBuffer(await encrypter.encrypt(content));
  }

  /**
   * Returns the content of an object, which may be encrypted.
   * @throws {Locked} when none of the keys fits; {Damaged}; {Unusable} when a key is invalid
   */
  async open(name: string, stored: Buffer<ArrayBuffer>): Promise<Buffer<ArrayBuffer>> {
    if (!isSealed(stored)) return stored;
    const decrypter = await this.#decrypter(name);
    return decrypter.decrypt(stored).then(asBuffer, (error: unknown) => refuse(name, error));
  }

  /** Returns at least the first `length` bytes of an object's content, if it has so many. @throws as `open` does */
  async openStart(name: string, length: number): Promise<Buffer<ArrayBuffer>> {
    const wanted = length + (this.#keys.length > 0 ? READ_AHEAD : 0);
    const stored = await this.#store.read(name, { offset: 0, length: wanted });
    if (!isSealed(stored) || stored.length < wanted) return this.open(name, stored);
    const decrypter = await this.#decrypter(name);
    // The stream has no end, because age refuses an object that is cut.
    const source = new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(stored) });
    try {
      const pieces: Uint8Array[] = [];
      let bytes = 0;
      for await (const piece of await decrypter.decrypt(source)) {
        pieces.push(piece);
        bytes += piece.length;
        if (bytes >= length) break;
      }
      return Buffer.concat(pieces);
    } catch (error) {
      return refuse(name, error);
    }
  }

  async #decrypter(name: string) {
    if (this.#keys.length === 0) throw new Locked(`${name} is encrypted: set RUNNER_SNAPSHOT_KEY to its key`);
    const { Decrypter } = await loadAge();
    const decrypter = new Decrypter();
    try {
      for (const key of this.#keys) decrypter.addIdentity(key);
    } catch {
      invalid();
    }
    return decrypter;
  }
}

/** Loads the library only when it is needed: it takes 25 MB. */
function loadAge() {
  return import('age-encryption');
}

function isSealed(stored: Buffer): boolean {
  return stored.subarray(0, SEALED.length).equals(SEALED);
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer<ArrayBuffer> {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}

function refuse(name: string, error: unknown): never {
  if (NO_KEY_FITS.test(reason(error)))
    throw new Locked(`${name} is encrypted with another key: add it to RUNNER_SNAPSHOT_KEY`);
  throw new Damaged(`${name} is damaged: ${reason(error)}`);
}

// The library's message is not shown, because it contains the key.
function invalid(): never {
  throw new Unusable(`RUNNER_SNAPSHOT_KEY has a key that is not an age identity; \`age-keygen\` makes one`);
}
