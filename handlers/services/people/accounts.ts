// Accounts, API keys and collaborators.
import { findAppBySlug } from '../../../sqlite/control/apps/apps.ts';
import {
  deleteAccount,
  findAccount,
  insertAccount,
  listAccounts,
  renameAccount,
  setMaxApps,
} from '../../../sqlite/control/people/accounts.ts';
import {
  deleteCollaborator,
  listCollaborators,
  type NamedCollaborator,
  setCollaborator,
} from '../../../sqlite/control/people/collaborators.ts';
import {
  deleteKey,
  insertKey,
  KEYS_LIMIT,
  type ListedKey,
  listKeys,
} from '../../../sqlite/control/people/keys.ts';
import { type Actor, accountOf, keyOf, loseRights, requireOwnAccount } from '../../access.ts';
import type { Context } from '../../context.ts';
import { newId } from '../../contract/id.ts';
import { Problem } from '../../problem.ts';
import { hashOf, newApiKey } from '../../secrets.ts';
import { invalidInput } from '../../transports/validate.ts';
import { listAnswer, pageAfter } from '../paging.ts';
import type { Service } from '../types.ts';

const accountsCreate: Service<'accounts.create'> = async ({ db, at }, { name, email }) => {
  const row = { id: newId(), name, email, role: 'member' as const, max_apps: null, created_at: at };
  if (!(await insertAccount(db, row))) throw new Problem('email_taken');
  return row;
};

const accountsList: Service<'accounts.list'> = async ({ reads }, page) =>
  listAnswer('accounts.list', await listAccounts(reads, pageAfter('accounts.list', page)), (row) => row);

const accountsMe: Service<'accounts.me'> = async ({ reads, actor }) => {
  const account = await findAccount(reads, accountOf(actor));
  if (account === null) throw new Problem('account_not_found');
  return account;
};

const accountsRename: Service<'accounts.rename'> = async ({ db, actor }, { account, name }) => {
  requireOwnAccount(actor, account);
  const row = await renameAccount(db, account, name);
  if (row === null) throw new Problem('account_not_found');
  return row;
};

const accountsSetMaxApps: Service<'accounts.set_max_apps'> = async ({ db }, { account, max_apps }) => {
  const row = await setMaxApps(db, account, max_apps);
  if (row === null) throw new Problem('account_not_found');
  return row;
};

const accountsDelete: Service<'accounts.delete'> = async ({ db }, { id }) => {
  const result = await deleteAccount(db, id);
  if (result !== 'deleted') throw new Problem(result);
  loseRights();
  return null;
};

const keysCreate: Service<'keys.create'> = async (context, { account, name, scope, app, expires_at }) => {
  const { db, at, actor } = context;
  requireOwnAccount(actor, account);
  if (expires_at !== undefined && expires_at <= at)
    throw invalidInput([{ path: 'expires_at', message: 'must be in the future' }]);
  requireNoLonger(actor, expires_at);
  const key = newApiKey();
  const found = app === undefined ? null : await appOf(context, app);
  const row = {
    id: newId(),
    account_id: account,
    name,
    scope,
    app_id: found,
    created_at: at,
    expires_at: expires_at ?? null,
  };
  const made = await insertKey(db, row, await hashOf(key));
  if (made === null) throw new Problem('account_not_found');
  if (made === 'full')
    throw new Problem(
      'quota_exceeded',
      `An account may have at most ${KEYS_LIMIT} API keys; revoke one first (keys.revoke).`,
    );
  if (made === undefined)
    throw new Problem('app_not_found', `The account has no role on the app ${app}, or there is no such app.`);
  return { ...toKey(made), key };
};

/** Checks that an API key does not create a key that expires later than itself. @throws {Problem} `forbidden` */
function requireNoLonger(actor: Actor, expiresAt: string | undefined): void {
  const own = keyOf(actor)?.expiresAt ?? null;
  if (own === null || (expiresAt !== undefined && expiresAt <= own)) return;
  throw new Problem(
    'forbidden',
    `This API key expires at ${own}, so it cannot make a key that expires later or never.`,
  );
}

/** Returns the id of an app; `app` itself when no app has this slug. @param app its id or slug */
async function appOf({ reads }: Context, app: string): Promise<string> {
  return (await findAppBySlug(reads, app))?.id ?? app;
}

const keysList: Service<'keys.list'> = async ({ reads, actor }, { account, ...page }) => {
  requireOwnAccount(actor, account);
  const name = `keys.list ${account}`;
  const keys = await listKeys(reads, account, pageAfter(name, page));
  if (keys === null) throw new Problem('account_not_found');
  return listAnswer(name, keys, toKey);
};

const keysRevoke: Service<'keys.revoke'> = async ({ db, actor }, { id }) => {
  if (!(await deleteKey(db, id, accountOf(actor)))) throw new Problem('key_not_found');
  loseRights();
  return null;
};

const collaboratorsList: Service<'collaborators.list'> = async ({ reads }, { id, ...page }) => {
  const name = `collaborators.list ${id}`;
  return listAnswer(name, await listCollaborators(reads, id, pageAfter(name, page)), toCollaborator);
};

const collaboratorsSet: Service<'collaborators.set'> = async ({ db, at }, { id, account, role }) => {
  const row = await setCollaborator(db, { app_id: id, account_id: account, role, created_at: at });
  if (row === null) throw new Problem('app_not_found');
  if (row === undefined) throw new Problem('account_not_found');
  loseRights();
  return toCollaborator(row);
};

const collaboratorsRemove: Service<'collaborators.remove'> = async ({ db }, { id, account }) => {
  const removed = await deleteCollaborator(db, id, account);
  if (removed === null) throw new Problem('app_not_found');
  if (!removed) throw new Problem('collaborator_not_found');
  loseRights();
  return null;
};

export const accountServices = {
  'accounts.create': accountsCreate,
  'accounts.list': accountsList,
  'accounts.me': accountsMe,
  'accounts.rename': accountsRename,
  'accounts.set_max_apps': accountsSetMaxApps,
  'accounts.delete': accountsDelete,
  'keys.create': keysCreate,
  'keys.list': keysList,
  'keys.revoke': keysRevoke,
  'collaborators.list': collaboratorsList,
  'collaborators.set': collaboratorsSet,
  'collaborators.remove': collaboratorsRemove,
};

function toKey(row: ListedKey) {
  const { id, account_id, name, scope, app_id, app_slug, created_at, expires_at, last_used_at } = row;
  const app = app_id === null ? null : { id: app_id, slug: app_slug! };
  return { id, account: account_id, name, scope, app, created_at, expires_at, last_used_at };
}

function toCollaborator({ app_id, account_id, name, email, role, created_at }: NamedCollaborator) {
  return { app_id, account: account_id, name, email, role, created_at };
}
