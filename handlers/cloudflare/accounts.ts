// The caller and the accounts: each account of Cellar appears as an account of Cloudflare.
import { type AccountRow, findAccount, listAccounts } from '../../sqlite/control/people/accounts.ts';
import { accountOf } from '../access.ts';
import type { Context } from '../context.ts';
import { type CallContext, call, wholeList } from './call.ts';
import { CloudflareError, CODES } from './codes.ts';

/** Maximum accounts in a list. */
const ACCOUNTS_LIMIT = 200;
const ROLE = 'Administrator';

export const accountCalls = [
  call({
    method: 'GET',
    path: '/user/tokens/verify',
    as: 'accounts.me',
    answer: async ({ actor }) => ({ id: accountOf(actor) ?? 'runner', status: 'active' }),
  }),
  call({
    method: 'GET',
    path: '/user',
    as: 'accounts.me',
    answer: async (context) => {
      const account = accountOf(context.actor);
      const row = account === null ? null : await findAccount(context.reads, account);
      return { id: row?.id ?? 'runner', email: row?.email ?? `runner@${context.env.BASE_DOMAIN}` };
    },
  }),
  call({
    method: 'GET',
    path: '/accounts',
    as: 'accounts.me',
    answer: async (context) => wholeList((await accountsOf(context)).map(shown)),
  }),
  call({
    method: 'GET',
    path: '/accounts/:account',
    as: 'accounts.me',
    answer: async ({ reads, account }: CallContext) => shown((await findAccount(reads, account))!),
  }),
  call({
    method: 'GET',
    path: '/memberships',
    as: 'accounts.me',
    answer: async (context) =>
      wholeList(
        (await accountsOf(context)).map((row) => ({
          id: row.id,
          status: 'accepted',
          account: shown(row),
          roles: [ROLE],
        })),
      ),
  }),
];

/**
 * Checks that the account that a call names is the caller's own. The runner token may use any account.
 * @throws {CloudflareError} for another account, or one that does not exist
 */
export async function requireAccount({ actor, reads }: Context, account: string): Promise<void> {
  const isOwn =
    actor.kind === 'account' ? actor.id === account : (await findAccount(reads, account)) !== null;
  if (isOwn) return;
  const known =
    actor.kind === 'account'
      ? `The token belongs to the account ${actor.id}, not to ${account}: set CLOUDFLARE_ACCOUNT_ID, or account_id, to ${actor.id}, or leave both out.`
      : `There is no account ${account}; \`wrangler whoami\` lists them.`;
  throw new CloudflareError(403, CODES.AUTHENTICATION, known);
}

/** Returns the caller's account; for the runner token, up to `ACCOUNTS_LIMIT` accounts. */
async function accountsOf({ actor, reads }: Context): Promise<AccountRow[]> {
  const own = accountOf(actor);
  if (own === null) return (await listAccounts(reads, { after: '', limit: ACCOUNTS_LIMIT })).rows;
  const row = await findAccount(reads, own);
  return row === null ? [] : [row];
}

function shown({ id, name, created_at }: AccountRow) {
  return { id, name, type: 'standard', created_on: created_at };
}
