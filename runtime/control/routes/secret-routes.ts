// The handlers' calls about secrets, client certificates, and changed variables of apps.

import { CONNECTION_STRING, hyperdriveNames, isConnectionString } from '../../../bundler/bindings/secrets.ts';
import type { SecretChanges } from '../../../handlers/contract/host/host-calls.ts';
import type { HostCall } from '../../../handlers/contract/host/host-routes.ts';
import { SECRETS_LIMIT } from '../../../handlers/contract/sizes.ts';
import type { Apps } from '../../apps/apps.ts';
import type * as reader from '../../apps/client-certificate.ts';
import { type Secrets, TooManySecrets } from '../../apps/secrets.ts';
import { maskOf } from '../../builds/deploy/mask.ts';
import { readRelease } from '../../builds/release/release.ts';
import { reason } from '../../log.ts';
import { noSuchApp, Refusal } from '../../refusal.ts';
import { threads } from '../../threads/worker.ts';
import { type HostRoutes, readJson } from '../host-call.ts';

const READER = new URL('../../apps/client-certificate.ts', import.meta.url);
/** Longest time to read a client certificate, in ms. */
const READ_MS = 5_000;

export type SecretCall =
  | Extract<HostCall, `${string}/secrets`>
  | 'POST /apps/:id/renew'
  | 'POST /client-certificates'
  | 'POST /store-secrets';

export function secretRoutes({
  apps,
  secrets,
}: {
  apps: Apps;
  secrets: Secrets;
}): Pick<HostRoutes, SecretCall> {
  const requireApp = (id: string) => {
    if (!apps.get(id)) throw noSuchApp();
  };
  /** Waits for `restart`, and returns whether the changed settings are in use. Masks secrets in the `problem`. */
  const renewed = async (id: string, restart: Promise<boolean>) => {
    try {
      return { in_effect: await restart, problem: null };
    } catch (error) {
      const mask = maskOf(Object.values(secrets.values(id)));
      return { in_effect: false, problem: mask(reason(error)) };
    }
  };
  /** @throws {Refusal} when a Hyperdrive binding of the live release uses a changed secret that is no connection string */
  const requireConnectionStrings = async (id: string, changes: SecretChanges) => {
    const { liveDeployId } = apps.get(id)!;
    const release = liveDeployId === null ? null : await readRelease(await apps.release(id, liveDeployId));
    for (const name of hyperdriveNames(release?.outward)) {
      const value = Object.hasOwn(changes, name) ? changes[name]! : null;
      if (value !== null && !isConnectionString(value))
        throw new Refusal(
          400,
          'invalid_input',
          `the secret ${name} is the address to which the Hyperdrive binding ${name} connects, so its value must be a connection string such as ${CONNECTION_STRING}`,
        );
    }
  };
  return {
    'GET /apps/:id/secrets': ({ words }) => {
      requireApp(words[0]!);
      return { items: secrets.list(words[0]!) };
    },
    'POST /apps/:id/renew': ({ words }) => {
      requireApp(words[0]!);
      return renewed(words[0]!, apps.renewVars(words[0]!));
    },
    'POST /client-certificates': async ({ request }) => {
      const given = await readJson<'POST /client-certificates'>(request);
      const { key, ...found } = await threads.run<typeof reader.readCertificate>(
        READER,
        'readCertificate',
        [given],
        { deadlineMs: READ_MS, errors: [Refusal] },
      );
      return { ...found, sealed_key: secrets.sealKey(given.id, key) };
    },
    'POST /store-secrets': async ({ request }) => {
      const { store, name, from } = await readJson<'POST /store-secrets'>(request);
      const owner = `store ${store}`;
      const value =
        'value' in from ? from.value : secrets.open(owner, from.name, Buffer.from(from.sealed, 'base64'));
      return { sealed: secrets.seal(owner, name, value).toString('base64') };
    },
    'PATCH /apps/:id/secrets': async ({ request, words }) => {
      const id = words[0]!;
      const changes = await readJson<'PATCH /apps/:id/secrets'>(request);
      requireApp(id);
      await requireConnectionStrings(id, changes);
      try {
        const replaced = secrets.change(id, changes);
        const isChange = Object.entries(changes).some(
          ([name, value]) => value !== null || replaced.includes(name),
        );
        const result = isChange ? await renewed(id, apps.renew(id)) : { in_effect: false, problem: null };
        return { replaced, ...result, items: secrets.list(id) };
      } catch (error) {
        if (!(error instanceof TooManySecrets)) throw error;
        throw new Refusal(
          403,
          'quota_exceeded',
          `an app may have at most ${SECRETS_LIMIT} secrets; delete one first`,
        );
      }
    },
  };
}
