// Authenticates callers and authorizes every operation.
import { appAccess, isAdmin, type Role } from '../sqlite/control/people/access.ts';
import { findKey } from '../sqlite/control/people/keys.ts';
import type { Reader } from '../sqlite/control/reads.ts';
import type { OperationRights } from './contract/operation.ts';
import { ACCOUNT_HEADER } from './contract/people/sign-in.ts';
import type { Env } from './env.ts';
import { type KeyRights, type KeyUse, requireKeyFor, usableKey } from './key-scopes.ts';
import { Problem } from './problem.ts';
import { hashOf, isApiKey, sameSecret } from './secrets.ts';

/**
 * The caller. `runner`: the holder of the runner token, who may do everything. `account`: authenticated by an API key, or
 * named by the control UI's server for a signed-in person. `runs`: whether the account is an admin who is signed in.
 * `authorize` allows such an admin every operation.
 */
export type Actor =
  | { kind: 'runner' }
  /** `key`: what the API key may do; null for a signed-in person. */
  | { kind: 'account'; id: string; runs: boolean; key: KeyRights | null };

/** Headers that may hold the token when there is no `Authorization: Bearer`, in order of preference. */
const FALLBACK_HEADERS = ['x-runner-token', 'x-host-token', 'x-agent-token'] as const;

/**
 * Added to the error on localhost only, because the caller can read the file there. The text is the same for every Cellar,
 * so it reveals no secret.
 */
const TOKEN_PLACE =
  ' Unless RUNNER_TOKEN is set, the runner token is in the file `token` of the data directory (default: `.cellar/token`).';

/**
 * Number of calls of `loseRights` since the process started. When it changes, open streams check their caller's rights
 * again.
 */
let losses = 0;

export const rightsLost = () => losses;

/** Must be called when an account, a key or a role was removed, or a role was lowered. */
export function loseRights(): void {
  losses++;
}

const rank: Record<Role, number> = { view: 1, push: 2, admin: 3 };

/** Returns the caller of a request, by its token. @throws {Problem} `unauthorized` */
export async function authenticate(request: Request, context: KeyUse & { env: Env }): Promise<Actor> {
  const { env } = context;
  const token = presentedToken(request.headers);
  if (token === null) {
    const where = isLocal(env.BASE_DOMAIN) ? TOKEN_PLACE : '';
    throw new Problem(
      'unauthorized',
      `This route needs \`Authorization: Bearer\` with the runner token or an API key.${where}`,
    );
  }
  if (env.RUNNER_TOKEN !== '' && (await sameSecret(token, env.RUNNER_TOKEN))) {
    const id = request.headers.get(ACCOUNT_HEADER);
    return id === null ? { kind: 'runner' } : signedIn(env.DB, id);
  }
  const key = isApiKey(token) ? await findKey(env.DB, await hashOf(token)) : null;
  if (key === null)
    throw new Problem(
      'unauthorized',
      'The bearer token is wrong: it is neither the runner token nor an API key of this Cellar.',
    );
  return { kind: 'account', id: key.account_id, runs: false, key: usableKey(context, key) };
}

/**
 * Returns the caller for an account that a request with the runner token names.
 * @throws {Problem} `unauthorized` when the account was deleted
 */
async function signedIn(db: D1Database, id: string): Promise<Actor> {
  const runs = await isAdmin(db, id);
  if (runs === null) throw new Problem('unauthorized', 'The account of this sign-in was deleted.');
  return { kind: 'account', id, runs, key: null };
}

/**
 * Checks that the caller may run an operation.
 * @param input the operation's validated input
 * @returns true when this looked up the app, which then exists
 * @throws {Problem} `app_not_found` for an app that does not exist, then `forbidden`
 */
export async function authorize(
  { actor, reads }: { actor: Actor; reads: Reader },
  operation: OperationRights,
  input: object,
): Promise<boolean> {
  const { needs } = operation;
  if (actor.kind === 'runner' || actor.runs) return false;
  if (needs === 'runner') {
    throw new Problem(
      'forbidden',
      'This operation needs the runner token, or the sign-in of an admin of this Cellar.',
    );
  }
  if (needs === 'account') {
    requireKeyFor(actor.key, operation, null);
    return false;
  }
  const { id = null, slug = null } = input as { id?: string; slug?: string };
  const access = await appAccess(reads, actor.id, id === null ? { slug: slug! } : { id });
  if (access === null) throw new Problem('app_not_found');
  requireRole(access.role, needs);
  requireKeyFor(actor.key, operation, access.id);
  return true;
}

/**
 * Checks that a role is at least as high as the needed role.
 * @param role the unchecked role from the database or from an external control UI
 * @throws {Problem} `forbidden` when it is not a role, or lower than the needed one
 */
export function requireRole(role: unknown, need: Role): Role {
  if (role !== 'view' && role !== 'push' && role !== 'admin') {
    throw new Problem('forbidden', 'The account of this API key has no role on the app.');
  }
  if (rank[role] < rank[need])
    throw new Problem('forbidden', `This operation needs the role ${need} on the app; your role is ${role}.`);
  return role;
}

/**
 * Checks that an operation concerns the caller's own account. The runner token may name any account.
 * @throws {Problem} `forbidden` when an account names another one, even if a signed-in admin calls
 */
export function requireOwnAccount(actor: Actor, account: string): void {
  if (actor.kind === 'account' && actor.id !== account)
    throw new Problem(
      'forbidden',
      'This operation works only for your own account; for another account, use the runner token.',
    );
}

/**
 * Returns the id of the caller's account, when the caller sees only the account's own apps and those on which the account
 * has a role. Null: the caller sees all apps.
 */
export function seesAppsOf(actor: Actor): string | null {
  return actor.kind === 'account' && !actor.runs ? actor.id : null;
}

/** Returns the rights of the caller's API key; null without one. */
export function keyOf(actor: Actor): KeyRights | null {
  return actor.kind === 'account' ? actor.key : null;
}

/** Returns the id of the only app that the caller's API key is for; null for a key for all apps, or without a key. */
export function onlyAppOf(actor: Actor): string | null {
  return keyOf(actor)?.app ?? null;
}

/** Returns the id of the caller's account; null for the runner token. */
export function accountOf(actor: Actor): string | null {
  return actor.kind === 'account' ? actor.id : null;
}

/** Returns the caller for idempotency keys and the audit log: 'runner', or an account's id. */
export function callerOf(actor: Actor): string {
  return actor.kind === 'account' ? actor.id : 'runner';
}

function isLocal(baseDomain: string): boolean {
  return baseDomain === 'localhost' || baseDomain.endsWith('.localhost');
}

function presentedToken(headers: Headers): string | null {
  const bearer = /^Bearer +(\S+) *$/i.exec(headers.get('authorization') ?? '');
  if (bearer) return bearer[1]!;
  for (const name of FALLBACK_HEADERS) {
    const value = headers.get(name);
    if (value) return value;
  }
  return null;
}
