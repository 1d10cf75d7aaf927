// The secrets of apps: encrypted in the host's database, with a key in a separate file.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { SecretChanges, SecretRecord } from '../../handlers/contract/host/host-calls.ts';
import { SECRETS_LIMIT } from '../../handlers/contract/sizes.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { SealedKey } from '../fleets/config/mtls/mtls.ts';

const CIPHER = 'aes-256-gcm';
/** First byte of an encrypted value: the version of its format. */
const FORMAT = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** A client certificate belongs to no app, so its key is encrypted under this id. No app has this id. */
const CERTIFICATES = 'client certificate';

/** The change would exceed the number of secrets that an app may have. */
export class TooManySecrets extends Error {}

export class Secrets {
  readonly #store: Pick<HostStore, 'secrets' | 'transaction'>;
  readonly #key: Buffer;

  /** @param key 32 random bytes as base64url */
  constructor(store: Pick<HostStore, 'secrets' | 'transaction'>, key: string) {
    this.#store = store;
    this.#key = Buffer.from(key, 'base64url');
    if (this.#key.length !== 32)
      throw new Error('the key for secrets is damaged: it must be 43 characters, as it was made');
  }

  /** Returns an app's secrets without their values, sorted by name. */
  list(appId: string): SecretRecord[] {
    return this.#store.secrets
      .all(appId)
      .map(({ name, createdAt, updatedAt }) => ({ name, created_at: createdAt, updated_at: updatedAt }));
  }

  /**
   * Sets secrets, and deletes those whose value is `null`, in one transaction.
   * @returns the changed names that existed before
   * @throws {TooManySecrets} when the app would have more than it may
   */
  change(appId: string, changes: SecretChanges): string[] {
    const at = new Date().toISOString();
    const { secrets } = this.#store;
    return this.#store.transaction(() => {
      const before = new Set(secrets.all(appId).map(({ name }) => name));
      for (const [name, value] of Object.entries(changes)) {
        if (value === null) secrets.delete(appId, name);
        else secrets.set(appId, name, this.seal(appId, name, value), at);
      }
      if (secrets.all(appId).length > SECRETS_LIMIT) throw new TooManySecrets();
      return Object.keys(changes).filter((name) => before.has(name));
    });
  }

  /**
   * Decrypts an app's secrets.
   * @throws {Error} naming the secret that this key cannot decrypt
   */
  values(appId: string): Record<string, string> {
    const entries = this.#store.secrets
      .all(appId)
      .map(({ name, sealed }) => [name, this.open(appId, name, sealed)]);
    return Object.fromEntries(entries);
  }

  /** Encrypts the private key of a client certificate. @returns base64 */
  sealKey(certificate: string, key: string): string {
    return this.seal(CERTIFICATES, certificate, key).toString('base64');
  }

  /** Decrypts what `sealKey` encrypted. @throws {Error} when this key cannot decrypt it */
  openKey({ certificate, sealedKey }: SealedKey): string {
    return this.open(CERTIFICATES, certificate, Buffer.from(sealedKey, 'base64'));
  }

  /** Encrypts a value, which is bound to its app and name. */
  seal(appId: string, name: string, value: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(owner(appId, name));
    const encrypted = Buffer.concat([cipher.update(value, 'utf8'), cipher.final()]);
    return Buffer.concat([Buffer.of(FORMAT), nonce, cipher.getAuthTag(), encrypted]);
  }

  /** Decrypts what `seal` encrypted. @throws {Error} naming the value, when this key cannot decrypt it */
  open(appId: string, name: string, sealed: Buffer): string {
    try {
      if (sealed[0] !== FORMAT) throw new Error('it was encrypted in another format');
      const tagAt = 1 + NONCE_BYTES;
      const from = tagAt + TAG_BYTES;
      const decipher = createDecipheriv(CIPHER, this.#key, sealed.subarray(1, tagAt), {
        authTagLength: TAG_BYTES,
      })
        .setAAD(owner(appId, name))
        .setAuthTag(sealed.subarray(tagAt, from));
      return decipher.update(sealed.subarray(from), undefined, 'utf8') + decipher.final('utf8');
    } catch {
      throw new Error(
        `the secret ${name} cannot be decrypted: the key in the data directory is not the one that it was encrypted with; put that key back, or set the secret again`,
      );
    }
  }
}

/** Returns the additional authenticated data, which binds a value to its app and name, so that it cannot be moved. */
function owner(appId: string, name: string): Buffer {
  return Buffer.from(`${appId}\0${name}`, 'utf8');
}
