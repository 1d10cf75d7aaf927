// Names and types of the calls to the host about the Secrets Stores of accounts.

/** Matches the name of a secret or of a store, as in `bundler/bindings/secrets-store.ts`. */
export const STORE_SECRET_NAME = /^[A-Za-z0-9_-]{1,255}$/;
export const STORE_SECRET_NAME_RULE = 'must have 1 to 255 letters, digits, underscores and hyphens';

/** Names one secret. */
export interface StoreSecret {
  /** Id of the account. */
  owner: string;
  /** Id of the store. */
  store: string;
  name: string;
}

/** A value to encrypt for one name in a store. */
export interface ToSeal {
  store: string;
  name: string;
  /** The plain value, or the encrypted value of another name in the same store, in base64. */
  from: { value: string } | { name: string; sealed: string };
}
