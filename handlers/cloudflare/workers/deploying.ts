// Deploys, and changes of triggers and secrets, by Wrangler. Waits for the end of a deploy, and throws the reason of a
// failure.
import * as z from 'zod';
import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import { findAccount } from '../../../sqlite/control/people/accounts.ts';
import { accountOf, authorize, keyOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import { SecretChanges } from '../../contract/apps/secrets.ts';
import type { SecretChanges as Changes } from '../../contract/host/host-calls.ts';
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { requireKeyForNewApp } from '../../key-scopes.ts';
import { type Deployed, ended } from '../../services/apps/versions.ts';
import { validate } from '../../transports/validate.ts';
import { sendWhileAllowed } from '../../transports/while-allowed.ts';
import type { CallContext } from '../call.ts';
import { ownerOf, requireBody } from './assets.ts';
import { homeOfUpload } from './upload-home.ts';

type Uploaded = HostCalls['POST /uploads/versions']['answer'];

/** Sets the secrets of an upload, and deploys it. @throws {Problem} `deploy_failed` with the reason */
export async function deployUpload(
  context: Context,
  appId: string,
  { version, secrets }: Uploaded,
  author: string,
): Promise<Deployed> {
  await changeSecrets(context, appId, secrets);
  const { id, owner, message } = version;
  const words = { id: appId, deploy: id };
  const body = { owner, message, author };
  return ended(await context.host.call('POST /apps/:id/versions/:deploy', words, { body }));
}

/**
 * Sets secrets, and deletes those with the value `null`: all or none. Restarts the app once. The caller must have checked
 * the role. Secrets belong to the app, not to a version, so they apply at once.
 * @throws {Problem} `invalid_input` that names the secret
 */
export async function changeSecrets({ host }: Context, appId: string, changes: Changes): Promise<void> {
  const { secrets } = validate(z.object({ secrets: SecretChanges }), { secrets: changes });
  if (Object.keys(secrets).length > 0)
    await host.call('PATCH /apps/:id/secrets', { id: appId }, { body: secrets });
}

/**
 * Changes the triggers of the live release, such as crons, by a new deploy, and waits for its end. Deploys nothing when the
 * triggers are the same.
 * @throws {Problem} `deploy_failed`, and `release_unavailable` when the app has no live release
 */
export async function changeTriggers(
  context: CallContext,
  appId: string,
  triggers: Omit<HostCalls['PUT /apps/:id/triggers']['body'], 'author'>,
): Promise<void> {
  const body = { ...triggers, author: await authorOf(context) };
  const deploy = await context.host.call('PUT /apps/:id/triggers', { id: appId }, { body });
  if (deploy !== null) ended(deploy);
}

/**
 * Streams an uploaded version to the host.
 * @throws {Problem} `invalid_input` with the fault of the upload
 * @throws {RightsLost} when the caller loses the right to deploy before the upload ends
 */
export async function uploadVersion(
  context: CallContext,
  app: AppRow | null,
  author: string,
): Promise<Uploaded> {
  const { host, request, as, reads, whoNow } = context;
  const check = async () => {
    const actor = await whoNow();
    if (app === null) requireKeyForNewApp(keyOf(actor));
    else await authorize({ actor, reads }, as!, { id: app.id });
  };
  const query = { owner: ownerOf(context), app: app?.id, author, home: await homeOfUpload(context, app) };
  const contentType = request.headers.get('content-type') ?? '';
  const uploaded = await sendWhileAllowed(context, request, requireBody(request), check, (body) =>
    host.call('POST /uploads/versions', {}, { query, body, contentType }),
  );
  // The host may take long to check the upload, so this checks the rights once more.
  await check();
  return uploaded;
}

/** Returns the caller's e-mail address, name or id, to show as the author of a deploy. */
export async function authorOf({ actor, reads }: Context): Promise<string> {
  const account = accountOf(actor);
  if (account === null) return 'the runner token';
  const row = await findAccount(reads, account);
  return row?.email ?? row?.name ?? account;
}
