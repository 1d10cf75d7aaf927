// Accounts, API keys and collaborators.
import {
  deleteAccount,
  deleteKey,
  findAccount,
  insertAccount,
  insertKey,
  type KeyRow,
  listAccounts,
  listKeys,
  renameAccount,
  setMaxApps,
} from '../../../sqlite/control/people/accounts.ts';
import {
  deleteCollaborator,
  listCollaborators,
  type NamedCollaborator,
  setCollaborator,
} from '../../../sqlite/control/people/collaborators.ts';
import { accountOf, loseRights, requireOwnAccount } from '../../access.ts';
import { newId } from '../../contract/id.ts';
import { Problem } from '../../problem.ts';
import { hashOf, newApiKey } from '../../secrets.ts';
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

const keysCreate: Service<'keys.create'> = async ({ db, at, actor }, { account, name }) => {
  requireOwnAccount(actor, account);
  const key = newApiKey();
  const row = { id: newId(), account_id: account, name, created_at: at };
  if (!(await insertKey(db, row, await hashOf(key)))) throw new Problem('account_not_found');
  return { ...toKey(row), key };
};

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

function toKey({ id, account_id, name, created_at }: KeyRow) {
  return { id, account: account_id, name, created_at };
}

function toCollaborator({ app_id, account_id, name, email, role, created_at }: NamedCollaborator) {
  return { app_id, account: account_id, name, email, role, created_at };
}
