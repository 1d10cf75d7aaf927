// Accounts, their API keys, and the collaborators of an app. RPC only.
import * as z from 'zod';
import { id, listOf, moment, nothing, page, reference, text, time } from '../fields.ts';
import { operation } from '../operation.ts';

export const Account = z.strictObject({
  id,
  name: z.string(),
  /** Null for the first account until somebody signs up with the link of the first start. */
  email: z.string().nullable(),
  /**
   * `owner`: the first account, an admin, which owns apps that are created without a named owner. `admin`: has the rights of the
   * runner token when signed in to the control UI. `guest`: was invited to an app, and owns none.
   */
  role: z.enum(['owner', 'admin', 'member', 'guest']),
  /** How many apps it may own; null: `RUNNER_MAX_APPS_PER_USER`. */
  max_apps: z.int().min(0).nullable(),
  created_at: time,
});

/**
 * Limits an API key. `read`: only read. `deploy`: also what the role push may do. `admin`: everything that its account may
 * do.
 */
export const keyScope = z.enum(['read', 'deploy', 'admin']);

export const Key = z.strictObject({
  id,
  account: id,
  name: z.string(),
  scope: keyScope,
  /** The only app that the key is for; null for all apps. */
  app: z.strictObject({ id, slug: z.string() }).nullable(),
  created_at: time,
  /** Time at which the key expires; null: never. */
  expires_at: time.nullable(),
  /** Time of the last use, to the minute; null: never used. */
  last_used_at: time.nullable(),
});

export const collaboratorRole = z.enum(['view', 'push', 'admin']);
export const Collaborator = z.strictObject({
  app_id: id,
  account: id,
  name: z.string(),
  email: z.string().nullable(),
  role: collaboratorRole,
  created_at: time,
});

export const accounts = [
  operation({
    name: 'accounts.create',
    summary: 'Makes an account',
    method: 'POST',
    needs: 'runner',
    input: z.strictObject({
      name: text(100),
      email: z
        .email()
        .max(254)
        .transform((value) => value.toLowerCase()),
    }),
    output: Account,
    status: 201,
    errors: ['email_taken'],
  }),
  operation({
    name: 'accounts.list',
    summary: 'Lists accounts, oldest first',
    method: 'GET',
    needs: 'runner',
    input: z.strictObject({ ...page }),
    output: listOf(Account),
  }),
  operation({
    name: 'accounts.me',
    oneApp: true,
    summary: "Reads the caller's account; for the runner token, the first account",
    method: 'GET',
    needs: 'account',
    input: z.strictObject({}),
    output: Account,
    errors: ['account_not_found'],
  }),
  operation({
    name: 'accounts.rename',
    summary: 'Gives an account another name',
    method: 'POST',
    needs: 'account',
    input: z.strictObject({ account: reference, name: text(100) }),
    output: Account,
    errors: ['account_not_found'],
  }),
  operation({
    name: 'accounts.set_max_apps',
    summary: 'Sets how many apps an account may own; null: the default, RUNNER_MAX_APPS_PER_USER',
    method: 'POST',
    needs: 'runner',
    input: z.strictObject({ account: reference, max_apps: z.int().min(0).max(100_000).nullable() }),
    output: Account,
    errors: ['account_not_found'],
  }),
  operation({
    name: 'accounts.delete',
    summary: 'Deletes an account that owns no app, and its keys',
    method: 'DELETE',
    needs: 'runner',
    input: z.strictObject({ id: reference }),
    output: nothing,
    errors: ['account_not_found', 'account_in_use', 'account_protected'],
  }),
] as const;

export const keys = [
  operation({
    name: 'keys.create',
    summary: 'Makes an API key, which is also the password for git; `key` is shown only once',
    method: 'POST',
    needs: 'account',
    input: z.strictObject({
      account: reference,
      name: text(100).default('key'),
      scope: keyScope.default('admin'),
      app: reference.optional(),
      expires_at: moment.optional(),
    }),
    output: z.strictObject({ ...Key.shape, key: z.string() }),
    status: 201,
    errors: ['account_not_found', 'app_not_found', 'quota_exceeded'],
    secrets: ['key'],
  }),
  operation({
    name: 'keys.list',
    summary: "Lists an account's API keys, without the keys themselves",
    method: 'GET',
    needs: 'account',
    input: z.strictObject({ account: reference, ...page }),
    output: listOf(Key),
    errors: ['account_not_found'],
  }),
  operation({
    name: 'keys.revoke',
    summary: 'Revokes an API key',
    method: 'DELETE',
    needs: 'account',
    input: z.strictObject({ id: reference }),
    output: nothing,
    errors: ['key_not_found'],
  }),
] as const;

export const collaborators = [
  operation({
    name: 'collaborators.list',
    summary: "Lists an app's collaborators",
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Collaborator),
  }),
  operation({
    name: 'collaborators.set',
    summary: 'Sets the role of an account on an app',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({ id: reference, account: reference, role: collaboratorRole }),
    output: Collaborator,
    errors: ['account_not_found'],
  }),
  operation({
    name: 'collaborators.remove',
    summary: "Removes an account's role on an app",
    method: 'DELETE',
    needs: 'admin',
    input: z.strictObject({ id: reference, account: reference }),
    output: nothing,
    errors: ['collaborator_not_found'],
  }),
] as const;
