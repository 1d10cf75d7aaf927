// Bindings to secrets in Secrets Stores of the app's owner.
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { StoreSecretBinding } from '../release.ts';

/** A valid name of a secret, as in `handlers/contract/host/store-secrets.ts`. */
export const STORE_SECRET_NAME = /^[A-Za-z0-9_-]{1,255}$/;
export const STORE_SECRET_NAME_RULE = 'must have 1 to 255 letters, digits, underscores and hyphens';

/**
 * Returns the bindings to secrets of stores. Does not check that the secrets exist.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} for an invalid name of a secret, and for bindings without a Worker
 */
export function storeSecretBindings(
  file: string,
  { main, secrets_store_secrets: secrets = [] }: Pick<WranglerConfig, 'main' | 'secrets_store_secrets'>,
): StoreSecretBinding[] {
  if (secrets.length > 0 && main === undefined)
    throw new BuildFailure(
      `${file}: secrets_store_secrets: the project has no Worker; set "main" to its file`,
    );
  return secrets.map(({ binding, store_id: store, secret_name: secret }) => {
    if (!STORE_SECRET_NAME.test(secret))
      throw new BuildFailure(
        `${file}: secrets_store_secrets: ${binding}: "secret_name" ${STORE_SECRET_NAME_RULE}`,
      );
    return { binding, store, secret };
  });
}
