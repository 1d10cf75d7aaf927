// Invites to the control UI.
import { findAccount, hasEmail } from '../../sqlite/control/accounts.ts';
import {
  deleteInvite,
  findInvite,
  insertInvite,
  type ListedInvite,
  listInvites,
} from '../../sqlite/control/invites.ts';
import { newId } from '../contract/id.ts';
import { Problem } from '../problem.ts';
import { hashOf, newLinkSecret } from '../secrets.ts';
import { listAnswer, pageAfter } from './paging.ts';
import type { Service } from './types.ts';

const LIFE_MS = 7 * 24 * 3_600_000;

const create: Service<'invites.create'> = async ({ db, reads, at, env }, { email, role, app, account }) => {
  if (env.RUNNER_UI_URL !== '')
    throw new Problem('forbidden', 'People sign in to the control UI elsewhere; invite them there.');
  if (account !== undefined && (await findAccount(reads, account)) === null)
    throw new Problem('account_not_found');
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
    used_at: null,
  };
  const secret = newLinkSecret();
  if (!(await insertInvite(db, row, await hashOf(secret)))) throw new Problem('app_not_found');
  const made = await findInvite(db, row.id);
  return { ...shown(made!), url: `${env.PUBLIC_UI_URL}/invite?token=${secret}` };
};

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
