// Wrangler's calls about Secrets Stores. No call returns the value of a secret. An app reads the secrets that it binds.
import * as z from 'zod';
import { isUniqueViolation } from '../../../sqlite/control/apps/transitions.ts';
import {
  addStore,
  addStoreSecrets,
  deleteStore,
  deleteStoreSecret,
  findStoreSecret,
  listStoreSecrets,
  listStores,
  type SecretStore,
  type StoredSecret,
  updateStoreSecret,
} from '../../../sqlite/control/people/secret-stores.ts';
import { secretValue } from '../../contract/apps/secrets.ts';
import { STORE_SECRET_NAME, STORE_SECRET_NAME_RULE, type ToSeal } from '../../contract/host/store-secrets.ts';
import { newId, uuidOf } from '../../contract/id.ts';
import { accountCall, type CallContext } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { numberedPage } from './kept.ts';

const STORES = '/accounts/:account/secrets_store/stores';
const SECRETS = `${STORES}/:store/secrets`;
const SECRET = `${SECRETS}/:secret`;
const STORES_MAX = 10;
/** Maximum secrets of one account, as on Cloudflare. */
const SECRETS_MAX = 100;
/** The scope that lets Workers read a secret. */
export const WORKERS = 'workers';

const name = z.string().regex(STORE_SECRET_NAME, STORE_SECRET_NAME_RULE);
const comment = z.string().max(1_000);
const scopes = z.array(z.string().min(1).max(64)).max(16);
const described = { comment: comment.default(''), scopes: scopes.default([]) };
const New = z.object({ name, value: secretValue, ...described });
const Copy = z.object({ name, ...described });
const Change = z.object({
  value: secretValue.optional(),
  comment: comment.optional(),
  scopes: scopes.optional(),
});

export const secretsStoreCalls = [
  accountCall({
    method: 'GET',
    path: STORES,
    as: 'secrets.list',
    answer: async (context) =>
      numberedPage(context, (await listStores(context.reads, context.account)).map(shown)),
  }),
  accountCall({
    method: 'POST',
    path: STORES,
    as: 'secrets.set',
    body: z.object({ name }),
    answer: async ({ db, account: owner, at, note }, { name }) => {
      note({ name });
      const store = { id: hexId(), name, created_at: at };
      if (await addStore(db, { id: store.id, owner, name, at, limit: STORES_MAX })) return shown(store);
      const message = `The account has a Secrets Store ${name} already, or has ${STORES_MAX} stores, the maximum: use another name, or delete a store.`;
      throw new CloudflareError(409, CODES.BAD_REQUEST, message);
    },
  }),
  accountCall({
    method: 'DELETE',
    path: `${STORES}/:store`,
    as: 'secrets.delete',
    answer: async (context) => {
      const store = await requireStore(context);
      if (await deleteStore(context.db, store.id)) return shown(store);
      const message = `The Secrets Store ${store.name} has secrets: delete them first.`;
      throw new CloudflareError(409, CODES.BAD_REQUEST, message);
    },
  }),
  accountCall({
    method: 'GET',
    path: SECRETS,
    as: 'secrets.list',
    answer: async (context) => {
      const { id } = await requireStore(context);
      const search = context.url.searchParams.get('search') ?? '';
      const found = await listStoreSecrets(context.reads, id);
      return numberedPage(context, found.filter((each) => each.name.includes(search)).map(shownSecret));
    },
  }),
  accountCall({
    method: 'POST',
    path: SECRETS,
    as: 'secrets.set',
    body: z.array(New).min(1).max(SECRETS_MAX),
    answer: async (context, given) => {
      const { id: store } = await requireStore(context);
      context.note({ name: given.map(({ name }) => name).join(', ') });
      await requireFreeNames(context, store, given);
      const added = await Promise.all(
        given.map(async ({ value, ...each }) => {
          const sealed = await seal(context, { store, name: each.name, from: { value } });
          return { ...newSecret(context, store, each), sealed };
        }),
      );
      await add(context, added);
      return added.map(shownSecret);
    },
  }),
  accountCall({
    method: 'GET',
    path: SECRET,
    as: 'secrets.list',
    answer: async (context) => shownSecret(await requireSecret(context)),
  }),
  accountCall({
    method: 'PATCH',
    path: SECRET,
    as: 'secrets.set',
    body: Change,
    answer: async (context, { value, scopes, comment }) => {
      const { id, store_id: store, name } = await requireSecret(context);
      const { db, at } = context;
      await updateStoreSecret(db, id, {
        at,
        ...(value !== undefined && { sealed: await seal(context, { store, name, from: { value } }) }),
        ...(comment !== undefined && { comment }),
        ...(scopes !== undefined && { scopes: JSON.stringify(scopes) }),
      });
      return shownSecret(await requireSecret({ ...context, reads: db }));
    },
  }),
  accountCall({
    method: 'DELETE',
    path: SECRET,
    as: 'secrets.delete',
    answer: async (context) => {
      const secret = await requireSecret(context);
      await deleteStoreSecret(context.db, secret.id);
      return shownSecret(secret);
    },
  }),
  accountCall({
    method: 'POST',
    path: `${SECRET}/duplicate`,
    as: 'secrets.set',
    body: Copy,
    answer: async (context, given) => {
      const { store_id: store, name, sealed } = await requireSecret(context);
      context.note({ name: given.name });
      await requireFreeNames(context, store, [given]);
      const copy = await seal(context, { store, name: given.name, from: { name, sealed } });
      const added = { ...newSecret(context, store, given), sealed: copy };
      await add(context, [added]);
      return shownSecret(added);
    },
  }),
];

async function requireStore({ reads, account, words }: CallContext): Promise<SecretStore> {
  const found = (await listStores(reads, account)).find(({ id }) => id === words.store);
  if (found !== undefined) return found;
  const message = `There is no Secrets Store ${words.store}: \`wrangler secrets-store store list --remote\` lists them.`;
  throw new CloudflareError(404, CODES.SECRET_NOT_FOUND, message);
}

async function requireSecret(context: CallContext): Promise<StoredSecret & { sealed: string }> {
  const { id, name } = await requireStore(context);
  const { secret } = context.words;
  const found = await findStoreSecret(context.reads, id, secret!);
  if (found !== null) return found;
  throw new CloudflareError(
    404,
    CODES.SECRET_NOT_FOUND,
    `The Secrets Store ${name} has no secret ${secret}.`,
  );
}

async function requireFreeNames(
  context: CallContext,
  store: string,
  given: { name: string }[],
): Promise<void> {
  const taken = new Set((await listStoreSecrets(context.reads, store)).map(({ name }) => name));
  for (const { name } of given) {
    if (taken.has(name))
      throw new CloudflareError(409, CODES.BAD_REQUEST, `The Secrets Store has a secret ${name} already.`);
    taken.add(name);
  }
}

/** Encrypts a value for a name in a store. The value cannot be decrypted for another name or store. */
async function seal({ host }: CallContext, body: ToSeal): Promise<string> {
  return (await host.call('POST /store-secrets', {}, { body })).sealed;
}

async function add(
  { db, account }: CallContext,
  added: (StoredSecret & { sealed: string })[],
): Promise<void> {
  try {
    if (await addStoreSecrets(db, account, added, SECRETS_MAX)) return;
  } catch (error) {
    // Another call has added a secret of the same name since the check.
    if (!isUniqueViolation(error, 'store_secrets.store_id')) throw error;
    const names = added.map(({ name }) => name).join(', ');
    throw new CloudflareError(
      409,
      CODES.BAD_REQUEST,
      `The Secrets Store has at least one of these secrets already: ${names}.`,
    );
  }
  const message = `An account may have at most ${SECRETS_MAX} secrets in its Secrets Stores: delete one first.`;
  throw new CloudflareError(409, CODES.BAD_REQUEST, message);
}

function newSecret(
  { at }: CallContext,
  store: string,
  { name, comment, scopes }: { name: string; comment: string; scopes: string[] },
): StoredSecret {
  const times = { created_at: at, updated_at: at };
  return { id: hexId(), store_id: store, name, comment, scopes: JSON.stringify(scopes), ...times };
}

/** Returns a new id of 32 hexadecimal digits, as Cloudflare's are. */
function hexId(): string {
  return uuidOf(newId()).replaceAll('-', '');
}

function shown({ id, name, created_at }: SecretStore) {
  return { id, name, created: created_at, modified: created_at };
}

function shownSecret({ id, store_id, name, comment, scopes, created_at, updated_at }: StoredSecret) {
  const times = { created: created_at, modified: updated_at };
  return { id, store_id, name, comment, scopes: JSON.parse(scopes), status: 'active', ...times };
}
