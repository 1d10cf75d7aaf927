// The values of the secrets in accounts' Secrets Stores, for the apps that run here. The control plane has them encrypted.
import type { StoreSecret } from '../../handlers/contract/host/store-secrets.ts';
import type { Secrets } from './secrets.ts';

/** How long a value is cached, in ms. A changed value reaches apps within this time. */
const FRESH_MS = 5_000;
/** Maximum number of cached values. */
const KEPT = 1_000;

interface Known {
  at: number;
  value: Promise<string | null>;
  /** The newest value that was read, for when the control plane does not answer; undefined before the first. */
  last: string | null | undefined;
}

export class StoreSecrets {
  readonly #secrets: Pick<Secrets, 'open'>;
  readonly #ask: (asked: StoreSecret) => Promise<string | null>;
  readonly #known = new Map<string, Known>();

  /** @param ask gets an encrypted value from the control plane, in base64. Null: the secret does not exist */
  constructor(secrets: Pick<Secrets, 'open'>, ask: (asked: StoreSecret) => Promise<string | null>) {
    this.#secrets = secrets;
    this.#ask = ask;
  }

  /**
   * Returns a value, at most `FRESH_MS` old; null without such a secret. When the control plane does not answer, returns
   * the newest value that was read.
   * @throws {Error} when the control plane does not answer and no value is known, or the value cannot be decrypted
   */
  get(asked: StoreSecret): Promise<string | null> {
    const key = JSON.stringify([asked.owner, asked.store, asked.name]);
    const known = this.#known.get(key);
    if (known !== undefined && Date.now() - known.at < FRESH_MS) return known.value;
    const next: Known = { at: Date.now(), value: this.#read(asked, known?.last), last: known?.last };
    this.#known.delete(key);
    this.#known.set(key, next);
    if (this.#known.size > KEPT) this.#known.delete(this.#known.keys().next().value!);
    next.value.then(
      (value) => {
        next.last = value;
      },
      () => this.#known.get(key) === next && this.#known.delete(key),
    );
    return next.value;
  }

  async #read(asked: StoreSecret, last: string | null | undefined): Promise<string | null> {
    let sealed: string | null;
    try {
      sealed = await this.#ask(asked);
    } catch (error) {
      if (last === undefined) throw error;
      return last;
    }
    return sealed === null
      ? null
      : this.#secrets.open(`store ${asked.store}`, asked.name, Buffer.from(sealed, 'base64'));
  }
}
