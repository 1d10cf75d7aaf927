// Invites to the control UI, by admins of this Cellar and by admins of an app.
import { findAccount, hasEmail } from '../../../sqlite/control/people/accounts.ts';
import {
  findInvite,
  insertInvite,
  type ListedInvite,
  listInvites,
  revokeInvite,
} from '../../../sqlite/control/people/invites.ts';
import { accountOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import type { Mail } from '../../contract/host/host-calls.ts';
import { newId } from '../../contract/id.ts';
import { Problem } from '../../problem.ts';
import { hashOf, newLinkSecret } from '../../secrets.ts';
import { invalidInput } from '../../transports/validate.ts';
import { requireApp } from '../apps/apps.ts';
import { listAnswer, pageAfter } from '../paging.ts';
import type { Service } from '../types.ts';
import { inviteMail, inviteUrl, passwordMail } from './mails.ts';

const LIFE_MS = 7 * 24 * 3_600_000;

const create: Service<'invites.create'> = async (context, { email = null, role, app, account }) => {
  const { db, reads } = context;
  if (role === 'guest' && app === undefined)
    throw invalidInput([{ path: 'app', message: 'is required for a guest, because a guest owns no apps' }]);
  const target = account === undefined ? null : await findAccount(reads, account);
  if (account !== undefined && target === null) throw new Problem('account_not_found');
  if (target === null && email !== null && (await hasEmail(db, email))) throw new Problem('email_taken');
  const invite = { email, role, app: app ?? null, account: account ?? null, by: null };
  const made = await make(context, invite, target === null ? email : target.email);
  if (made === null) {
    if (app !== undefined) await requireApp(context, app.id);
    throw new Problem('account_not_found');
  }
  return made;
};

const list: Service<'invites.list'> = async ({ reads, at }, page) =>
  listAnswer('invites.list', await listInvites(reads, at, null, pageAfter('invites.list', page)), shown);

const revoke: Service<'invites.revoke'> = async ({ db, at }, { id }) => {
  if (!(await revokeInvite(db, id, null, at))) throw new Problem('invite_not_found');
  return null;
};

/** Invites a person to an app. The answer does not reveal whether an account has the address. */
const inviteToApp: Service<'collaborators.invite'> = async (context, { id, email, role }) => {
  const { actor } = context;
  const by = actor.kind === 'account' && !actor.runs ? actor.id : null;
  const invite = { email, role: 'guest' as const, app: { id, role }, account: null, by };
  const made = await make(context, invite, email);
  if (made === null) {
    await requireApp(context, id);
    throw new Problem(
      'quota_exceeded',
      'The limit of 20 invites a day is reached: invites to this app and your invites to other apps count together. Try again tomorrow, or give people who have an account a role by its id (collaborators.set).',
    );
  }
  const isSent = made.mail !== null && made.mail.problem === null;
  return by !== null && isSent ? { ...made, url: null } : made;
};

const listOfApp: Service<'collaborators.invites'> = async ({ reads, at }, { id, ...page }) => {
  const name = `collaborators.invites ${id}`;
  return listAnswer(name, await listInvites(reads, at, id, pageAfter(name, page)), shown);
};

const revokeOfApp: Service<'collaborators.revoke_invite'> = async ({ db, at }, { id, invite }) => {
  if (!(await revokeInvite(db, invite, id, at))) throw new Problem('invite_not_found');
  return null;
};

export const inviteServices = {
  'invites.create': create,
  'invites.list': list,
  'invites.revoke': revoke,
  'collaborators.invite': inviteToApp,
  'collaborators.invites': listOfApp,
  'collaborators.revoke_invite': revokeOfApp,
};

interface NewInvite {
  email: string | null;
  role: 'admin' | 'member' | 'guest';
  app: { id: string; role: 'view' | 'push' | 'admin' } | null;
  account: string | null;
  /** The account of the app's admin who invites; null for admins of this Cellar. */
  by: string | null;
}

/**
 * Creates an invite, and mails it if an address is known and Cellar can send e-mails.
 * @param to the recipient's address; null when unknown
 * @returns null when the app or the account does not exist, or the limit of invites is reached
 */
async function make(context: Context, { email, role, app, account, by }: NewInvite, to: string | null) {
  const { db, at, env } = context;
  if (env.RUNNER_UI_URL !== '')
    throw new Problem('forbidden', `People sign in at ${env.RUNNER_UI_URL}; invite them there.`);
  const row = {
    id: newId(),
    email,
    role,
    app_id: app?.id ?? null,
    app_role: app?.role ?? null,
    account_id: account,
    created_at: at,
    expires_at: new Date(Date.parse(at) + LIFE_MS).toISOString(),
    made_by: by,
  };
  const secret = newLinkSecret();
  if (!(await insertInvite(db, row, await hashOf(secret)))) return null;
  const made = shown((await findInvite(db, row.id))!);
  const url = inviteUrl(env, secret);
  if (to === null || env.MAIL !== 'on') return { ...made, url, mail: null };
  const link = { to, url, expiresAt: made.expires_at };
  const mail = account === null ? inviteMail(link, made, await addressOf(context)) : passwordMail(link);
  return { ...made, url, mail: { to, problem: await sendMail(context, mail) } };
}

/** Returns the caller's e-mail address; null without one. */
async function addressOf({ reads, actor }: Context): Promise<string | null> {
  return (await findAccount(reads, accountOf(actor)))?.email ?? null;
}

/**
 * Sends an e-mail. Never rejects, because its link can also be sent by other means.
 * @returns why it was not sent, or null
 */
async function sendMail({ host, actor }: Context, mail: Mail): Promise<string | null> {
  try {
    return await host.call('POST /mail', {}, { body: { mail, owner: accountOf(actor) ?? '' } });
  } catch (error) {
    return error instanceof Problem ? error.message : 'Cellar could not reach the part that sends e-mail';
  }
}

function shown({
  id,
  email,
  role,
  app_id,
  app_slug,
  app_role,
  account_id,
  made_by,
  created_at,
  expires_at,
}: ListedInvite) {
  return {
    id,
    email,
    role,
    app: app_id === null ? null : { id: app_id, slug: app_slug!, role: app_role! },
    account: account_id,
    by: made_by,
    created_at,
    expires_at: expires_at!,
  };
}
