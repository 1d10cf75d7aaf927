// Invites to the control UI.
import { findAccount, hasEmail } from '../../sqlite/control/accounts.ts';
import {
  deleteInvite,
  findInvite,
  insertInvite,
  type ListedInvite,
  listInvites,
} from '../../sqlite/control/invites.ts';
import { accountOf } from '../access.ts';
import type { Context } from '../context.ts';
import type { Mail } from '../contract/host-calls.ts';
import { newId } from '../contract/id.ts';
import { Problem } from '../problem.ts';
import { hashOf, newLinkSecret } from '../secrets.ts';
import { inviteMail, inviteUrl, passwordMail } from './mails.ts';
import { listAnswer, pageAfter } from './paging.ts';
import type { Service } from './types.ts';

const LIFE_MS = 7 * 24 * 3_600_000;

const create: Service<'invites.create'> = async (context, { email, role, app, account }) => {
  const { db, reads, at, env } = context;
  if (env.RUNNER_UI_URL !== '')
    throw new Problem('forbidden', 'People sign in to the control UI elsewhere; invite them there.');
  const target = account === undefined ? null : await findAccount(reads, account);
  if (account !== undefined && target === null) throw new Problem('account_not_found');
  if (account === undefined && email !== undefined && (await hasEmail(db, email)))
    throw new Problem('email_taken');
  const row = {
    id: newId(),
    email: email ?? null,
    role,
    app_id: app?.id ?? null,
    app_role: app?.role ?? null,
    account_id: account ?? null,
    created_at: at,
    expires_at: new Date(Date.parse(at) + LIFE_MS).toISOString(),
  };
  const secret = newLinkSecret();
  if (!(await insertInvite(db, row, await hashOf(secret)))) throw new Problem('app_not_found');
  const made = shown((await findInvite(db, row.id))!);
  const url = inviteUrl(env, secret);
  const to = target === null ? row.email : target.email;
  if (to === null || env.MAIL !== 'on') return { ...made, url, mail: null };
  const link = { to, url, expiresAt: made.expires_at };
  const mail = target === null ? inviteMail(link, made, await addressOf(context)) : passwordMail(link);
  return { ...made, url, mail: { to, problem: await sendMail(context, mail) } };
};

/** The e-mail address of whoever calls. */
async function addressOf({ reads, actor }: Context): Promise<string | null> {
  return (await findAccount(reads, accountOf(actor)))?.email ?? null;
}

/** Sends an e-mail. Never rejects: the link is made, and can be sent by other means. @returns why it was not sent, or null */
async function sendMail({ host }: Context, mail: Mail): Promise<string | null> {
  try {
    return await host.mail(mail);
  } catch (error) {
    return error instanceof Problem ? error.message : 'the mail server was not asked';
  }
}

const list: Service<'invites.list'> = async ({ reads, at }, page) =>
  listAnswer('invites.list', await listInvites(reads, at, pageAfter('invites.list', page)), shown);

const revoke: Service<'invites.revoke'> = async ({ db }, { id }) => {
  if (!(await deleteInvite(db, id))) throw new Problem('invite_not_found');
  return null;
};

export const inviteServices = {
  'invites.create': create,
  'invites.list': list,
  'invites.revoke': revoke,
};

function shown({
  id,
  email,
  role,
  app_id,
  app_slug,
  app_role,
  account_id,
  created_at,
  expires_at,
}: ListedInvite) {
  return {
    id,
    email,
    role,
    app: app_id === null ? null : { id: app_id, slug: app_slug!, role: app_role! },
    account: account_id,
    created_at,
    expires_at: expires_at!,
  };
}
