// Deploys from Wrangler: waits for the end of a deploy, and reports why one failed.
import * as z from 'zod';
import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import { homeOf } from '../../../sqlite/control/hosts.ts';
import { findAccount } from '../../../sqlite/control/people/accounts.ts';
import { accountOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import { SecretChanges } from '../../contract/apps/secrets.ts';
import type { SecretChanges as Changes, DeployFact } from '../../contract/host/host-calls.ts';
import type { HostCalls } from '../../contract/host/host-routes.ts';
import { validate } from '../../transports/validate.ts';
import { type CallContext, run } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { ownerOf, requireBody } from './assets.ts';
import { homeOfUpload } from './upload-home.ts';

/** Timeout and poll interval of a rollback, in ms. */
const ROLLBACK_TIMEOUT_MS = 5 * 60_000;
const POLL_MS = 100;

type Uploaded = HostCalls['POST /uploads/versions']['answer'];

/** A deploy that went live. */
export interface Deployed {
  id: string;
  /** Duration of its start step in ms. */
  startMs: number;
}

/** Deploys an upload with the secrets that came with it. @throws {CloudflareError} with the reason why the deploy failed */
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
 * Sets secrets, and deletes those with the value `null`, all or none, with one restart of the app. The caller must have checked
 * the role. Secrets belong to the app, not to a version, so they apply at once.
 * @throws {Problem} `invalid_input` that names the secret
 */
export async function changeSecrets({ host }: Context, appId: string, changes: Changes): Promise<void> {
  const { secrets } = validate(z.object({ secrets: SecretChanges }), { secrets: changes });
  if (Object.keys(secrets).length > 0)
    await host.call('PATCH /apps/:id/secrets', { id: appId }, { body: secrets });
}

/**
 * Has the live release called by other triggers, and waits until it is. Nothing is deployed when nothing changes.
 * @throws {CloudflareError} when the deploy fails; {Problem} `release_unavailable` when nothing is deployed
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

/** Passes an uploaded version on to the host. @throws {Problem} `invalid_input` with what is wrong with it */
export async function uploadVersion(
  context: CallContext,
  app: AppRow | null,
  author: string,
): Promise<Uploaded> {
  const { host, request } = context;
  return host.call(
    'POST /uploads/versions',
    {},
    {
      query: { owner: ownerOf(context), app: app?.id, author, home: await homeOfUpload(context, app) },
      body: requireBody(request),
      contentType: request.headers.get('content-type') ?? '',
    },
  );
}

/** Makes an earlier release live again, and waits until it serves. @throws {CloudflareError} when it does not go live */
export async function rollBack(context: Context, appId: string, deployId: string): Promise<Deployed> {
  const { id } = await run(context, 'deploys.rollback', { id: appId, deploy_id: deployId });
  const end = Date.now() + ROLLBACK_TIMEOUT_MS;
  const home = (await homeOf(context.db, appId)) ?? undefined;
  for (;;) {
    const asked = { query: { home }, body: [{ app_id: appId, id }] };
    const { items } = await context.host.call('POST /deploys', {}, asked);
    const fact = items[0];
    if (fact !== undefined && (fact.finished_at !== null || Date.now() > end)) return ended(fact);
    await scheduler.wait(POLL_MS);
  }
}

/** @throws {CloudflareError} for a deploy that did not go live */
export function ended({ id, status, error, steps }: DeployFact): Deployed {
  if (status === 'live' || status === 'replaced')
    return { id, startMs: steps.find(({ name }) => name === 'start')?.duration_ms ?? 0 };
  if (status === 'queued' || status === 'building')
    throw new CloudflareError(409, CODES.BAD_REQUEST, `Deploy ${id} is still running; see its log.`);
  throw new CloudflareError(
    400,
    CODES.SCRIPT_INVALID,
    `Deploy ${id} ${status === 'failed' ? 'failed' : `was ${status}`}: ${error ?? 'a newer one took its place'}`,
  );
}

/** Who makes a deploy, for people. */
export async function authorOf({ actor, reads }: Context): Promise<string> {
  const account = accountOf(actor);
  if (account === null) return 'the runner token';
  const row = await findAccount(reads, account);
  return row?.email ?? row?.name ?? account;
}
