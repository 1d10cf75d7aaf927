// Who calls, and what they may do: decided here for every operation, once.
import { appAccess, isAdmin, keyAccount, type Role } from '../sqlite/control/people/access.ts';
import type { Reader } from '../sqlite/control/reads.ts';
import type { Operation } from './contract/operation.ts';
import { ACCOUNT_HEADER } from './contract/people/sign-in.ts';
import type { Env } from './env.ts';
import { Problem } from './problem.ts';
import { hashOf, isApiKey, sameSecret } from './secrets.ts';

/**
 * Who calls: the runner's own token, which may do everything, or an account: by one of its API keys, or named by the control
 * UI's server, where its person is signed in. `runs`: it may do what the runner token may, as an admin who is signed in.
 */
export type Actor = { kind: 'runner' } | { kind: 'account'; id: string; runs: boolean };

/** Where the token may be when there is no `Authorization: Bearer`, in this order. */
const FALLBACK_HEADERS = ['x-runner-token', 'x-host-token', 'x-agent-token'] as const;

/** Said only on localhost, where the caller sits at the machine. It is true of every Cellar, so it tells nothing of this one. */
const TOKEN_PLACE =
  ' If nobody has set it, it is in the file `token` of the data directory, `.cellar/token` by default.';

/** How often somebody has lost rights since this process began. Its streams see by it when to look whether they may go on. */
let losses = 0;

export const rightsLost = () => losses;

/** To be called when an account, a key or a role has gone, or a role is less than before. */
export function loseRights(): void {
  losses++;
}

const rank: Record<Role, number> = { view: 1, push: 2, admin: 3 };

/** @throws {Problem} `unauthorized` */
export async function authenticate(request: Request, env: Env): Promise<Actor> {
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
  const account = isApiKey(token) ? await keyAccount(env.DB, await hashOf(token)) : null;
  if (account === null) throw new Problem('unauthorized', 'The bearer token is wrong.');
  return { kind: 'account', id: account, runs: false };
}

/** The account that the holder of the runner token names. @throws {Problem} `unauthorized` when it was deleted */
async function signedIn(db: D1Database, id: string): Promise<Actor> {
  const runs = await isAdmin(db, id);
  if (runs === null) throw new Problem('unauthorized', 'The account was deleted.');
  return { kind: 'account', id, runs };
}

/**
 * Lets an operation pass that the caller may carry out.
 * @param input the operation's, checked
 * @throws {Problem} `app_not_found` for an app that does not exist, then `forbidden`
 */
export async function authorize(
  { actor, reads }: { actor: Actor; reads: Reader },
  { needs }: Pick<Operation, 'needs'>,
  input: object,
): Promise<void> {
  if (actor.kind === 'runner' || actor.runs || needs === 'account') return;
  if (needs === 'runner') {
    throw new Problem('forbidden', 'This needs the runner token, or an admin who is signed in.');
  }
  const { id = null, slug = null } = input as { id?: string; slug?: string };
  const access = await appAccess(reads, actor.id, id === null ? { slug: slug! } : { id });
  if (access === null) throw new Problem('app_not_found');
  requireRole(access.role, needs);
}

/**
 * @param role as found or as told, unchecked
 * @throws {Problem} `forbidden` when it is not a role, or less than the needed one
 */
export function requireRole(role: unknown, need: Role): Role {
  if (role !== 'view' && role !== 'push' && role !== 'admin') {
    throw new Problem('forbidden', 'This key has no role on the app.');
  }
  if (rank[role] < rank[need])
    throw new Problem('forbidden', `This needs the role ${need}; yours is ${role}.`);
  return role;
}

/**
 * Whose records an operation on an account may touch.
 * @throws {Problem} `forbidden` when an account asks for another account's records
 */
export function requireOwn(actor: Actor, account: string): void {
  if (actor.kind === 'account' && actor.id !== account)
    throw new Problem('forbidden', 'An API key works for its own account; another needs the runner token.');
}

/** The account whose apps, and those it has a role on, the caller may see. Null when the caller may see all apps. */
export function seesAppsOf(actor: Actor): string | null {
  return actor.kind === 'account' && !actor.runs ? actor.id : null;
}

/** The caller's account; null for the runner token. */
export function accountOf(actor: Actor): string | null {
  return actor.kind === 'account' ? actor.id : null;
}

/** Whose idempotency keys and limits a call counts for: 'runner', or an account's id. */
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
