// Calls of the control UI's server about people. The UI's server stores passwords and sessions, the control plane accounts.
import * as z from 'zod';
import { type AccountRow, findAccount } from '../../sqlite/control/people/accounts.ts';
import {
  claimInvite,
  closeInvite,
  insertRecovery,
  joinByInvite,
  type OpenInvite,
  openInvite,
} from '../../sqlite/control/people/invites.ts';
import { deleteKeysOf } from '../../sqlite/control/people/keys.ts';
import { arriveAccount } from '../../sqlite/control/people/provider.ts';
import { loseRights } from '../access.ts';
import { record, recordRefusedSignIn } from '../audit.ts';
import type { RequestContext } from '../context.ts';
import { text } from '../contract/fields.ts';
import { newId } from '../contract/id.ts';
import type { LinkPurpose, SignedIn, SignInCalls } from '../contract/people/sign-in.ts';
import { Problem } from '../problem.ts';
import { hashOf, newLinkSecret } from '../secrets.ts';
import { inviteUrl, passwordMail } from '../services/people/mails.ts';
import { readJson } from '../transports/body.ts';
import { validate } from '../transports/validate.ts';

/** Lifetime of a link for a new password, in ms. An account can get only a few such links in this period. */
const RECOVERY_MS = 3_600_000;

const token = z.string().max(100);
const email = z
  .email()
  .max(254)
  .transform((value) => value.toLowerCase());
const used = z.strictObject({ token, account: z.string(), address: z.string().max(100) });
const inputs = {
  account: z.strictObject({ id: z.string() }),
  look: z.strictObject({ token }),
  claim: z.strictObject({ token, name: text(100), email }),
  forgot: z.strictObject({ email }),
  join: used,
  close: used,
  signed_in: z.strictObject({ account: z.string(), by: z.string().max(100), address: z.string().max(100) }),
  refused: z.strictObject({
    account: z.string().max(100).nullable(),
    email: z.string().max(254).nullable(),
    by: z.string().max(100),
    address: z.string().max(100),
    code: z.string().max(100),
  }),
  arrive: z.strictObject({
    account: z.string().nullable(),
    email,
    verified: z.boolean(),
    name: text(100),
    role: z.enum(['admin', 'member', 'guest']).nullable(),
  }),
};

type Answers = {
  [Name in keyof SignInCalls]: (
    context: RequestContext,
    input: SignInCalls[Name]['input'],
  ) => Promise<SignInCalls[Name]['answer']>;
};

const answers: Answers = {
  async account({ db }, { id }) {
    const account = await findAccount(db, id);
    if (account === null) throw new Problem('account_not_found');
    return signedIn(account);
  },

  async look({ db, at }, { token }) {
    return purpose(await openInvite(db, await hashOf(token), at));
  },

  async claim({ db, at }, { token, name, email }) {
    const invite = await claimInvite(db, await hashOf(token), { id: newId(), name, email, at });
    if (invite === null) throw new Problem('invite_not_found');
    const account = invite.account_id && (await findAccount(db, invite.account_id));
    // Another account has the e-mail address. Then the invite got no account, or its account got no address and cannot sign in.
    if (!account || account.email === null) throw new Problem('email_taken');
    const isGuest = account.role === 'guest';
    if (isGuest) {
      // The inviter of a guest saw the link, and may have used the link to create API keys for the account.
      await deleteKeysOf(db, account.id);
      loseRights();
    }
    return { ...signedIn(account), keeps_factors: invite.is_recovery === 1 && !isGuest };
  },

  async forgot(context, { email }) {
    // Not awaited, because the response time would reveal whether an account has the e-mail address.
    context.waitUntil(recover(context, email));
    return null;
  },

  async join(context, { token, account, address }) {
    const { db, at } = context;
    const app = await joinByInvite(db, await hashOf(token), account, at);
    if (app === undefined) throw new Problem('invite_not_found');
    await recordOwn({ ...context, address }, account, 'invites.accept', app, {});
    return { app };
  },

  arrive,

  async signed_in(context, { account, by, address }) {
    await recordOwn({ ...context, address }, account, 'sign_in', null, { by });
    return null;
  },

  async refused(context, input) {
    // Not awaited, because the response time would reveal whether an account has the e-mail address.
    context.waitUntil(recordRefusedSignIn(context, input));
    return null;
  },

  async close(context, { token, account, address }) {
    const { db, at } = context;
    const invite = await closeInvite(db, await hashOf(token), at);
    // A later call finds the link closed, and writes no second entry.
    if (invite !== null)
      await recordOwn({ ...context, address }, account, 'invites.accept', invite.app_slug, {});
    return null;
  },
};

/**
 * Writes a person's action in the control UI to the audit log. Never rejects.
 * @param slug the app's slug; null without an app
 */
async function recordOwn(
  context: RequestContext,
  id: string,
  operation: string,
  slug: string | null,
  details: Record<string, string>,
): Promise<void> {
  const actor = { kind: 'account' as const, id, runs: false, key: null };
  await record(context, { actor, via: 'ui' }, { operation, app: { id: null, slug }, details }, 'ok');
}

/**
 * Returns the account of a person from the identity provider. Refuses a new person whose address is not verified: the
 * address may be another person's.
 */
async function arrive(
  { db, at }: RequestContext,
  input: SignInCalls['arrive']['input'],
): Promise<SignInCalls['arrive']['answer']> {
  const arrived = await arriveAccount(db, { ...input, newId: newId(), at });
  if (arrived === null)
    throw new Problem('forbidden', 'The sign-in provider has not verified the e-mail address.');
  const { row, dropsCredentials } = arrived;
  // Another person may have created API keys for the account, as in `claim`.
  if (dropsCredentials) await deleteKeysOf(db, row.id);
  loseRights();
  return { ...signedIn(row), drops_credentials: dropsCredentials };
}

/** Mails a link for a new password, if an account has the address. */
async function recover({ db, host, env, at }: RequestContext, email: string): Promise<void> {
  const secret = newLinkSecret();
  const now = Date.parse(at);
  const expiresAt = new Date(now + RECOVERY_MS).toISOString();
  const link = { id: newId(), hash: await hashOf(secret), created_at: at, expires_at: expiresAt };
  if (!(await insertRecovery(db, email, link, new Date(now - RECOVERY_MS).toISOString()))) return;
  // Anybody can request such an e-mail. In the queue, all of them count as one account, so that they do not delay other
  // e-mails.
  const mail = passwordMail({ to: email, url: inviteUrl(env, secret), expiresAt });
  await host.call('POST /mail', {}, { body: { mail, owner: 'recovery' } });
}

/** Answers `POST /internal/sign-in/*`. The host's secret was checked before. */
export async function signIn(route: string, request: Request, context: RequestContext): Promise<Response> {
  const name = route.replace('POST /internal/sign-in/', '');
  if (!Object.hasOwn(answers, name)) throw new Problem('route_not_found');
  const call = name as keyof Answers;
  const input = validate(inputs[call], await readJson(request));
  return Response.json(await answers[call](context, input as never));
}

function signedIn({ id, name, email, role }: AccountRow): SignedIn {
  return { id, name, email: email ?? '', role: role === 'owner' ? 'admin' : role };
}

/** Returns the purpose of a link, from its invite. @throws {Problem} `invite_not_found` without an invite */
function purpose(invite: OpenInvite | null): LinkPurpose {
  if (invite === null) throw new Problem('invite_not_found');
  const { role, app_slug, app_role, account_id, account_name, account_email, email, expires_at } = invite;
  return {
    kind: expires_at === null ? 'welcome' : account_id === null ? 'invite' : 'account',
    role,
    app: app_slug !== null && app_role !== null ? { slug: app_slug, role: app_role } : null,
    name: account_email === null ? null : account_name,
    email: account_email ?? email,
    email_fixed: account_email !== null || email !== null,
    expires_at,
  };
}
