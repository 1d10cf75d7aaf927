// The rights of API keys. A key never has more rights than its account.
import type { Role } from '../sqlite/control/people/access.ts';
import { type FoundKey, touchKey } from '../sqlite/control/people/keys.ts';
import { type KeyScope, type OperationRights, scopeOf } from './contract/operation.ts';
import { Problem } from './problem.ts';

/** The part of a request's context that records the use of a key. */
export interface KeyUse {
  db: D1Database;
  at: string;
  waitUntil: (work: Promise<unknown>) => void;
}

/** The limits of an API key. The limits of its account apply too. */
export interface KeyRights {
  id: string;
  scope: KeyScope;
  /** Id of the only app that the key is for; null for all apps. */
  app: string | null;
  /** When the key expires, ISO 8601; null: never. */
  expiresAt: string | null;
}

const RANK: Record<KeyScope, number> = { read: 1, deploy: 2, admin: 3 };
const ROLE: Record<KeyScope, Role> = { read: 'view', deploy: 'push', admin: 'admin' };
const NEEDED: Record<Role, KeyScope> = { view: 'read', push: 'deploy', admin: 'admin' };
/** Precision of the stored time of a key's last use, in ms. */
const USED_EVERY_MS = 60_000;

/**
 * Returns the limits of a key, and stores the time of its use.
 * @throws {Problem} `unauthorized` when it has expired
 */
export function usableKey({ db, at, waitUntil }: KeyUse, key: FoundKey): KeyRights {
  const { id, scope, app_id, expires_at, last_used_at } = key;
  if (hasExpired(expires_at))
    throw new Problem('unauthorized', `This API key expired at ${expires_at}; make a new one.`);
  const before = new Date(Date.parse(at) - USED_EVERY_MS).toISOString();
  const isNew = last_used_at === null || last_used_at < before;
  if (isNew && isFirstThisMinute(id, at)) waitUntil(touchKey(db, id, at, before).catch(() => {}));
  return { id, scope, app: app_id, expiresAt: expires_at };
}

/** The keys that were used in the current minute. */
const used = { minute: '', keys: new Set<string>() };

/**
 * Whether a key is used for the first time in this minute. Limits the writes to one a minute for each key, because a failed
 * write, such as on a full disk, also aborts the reads of other requests.
 */
function isFirstThisMinute(id: string, at: string): boolean {
  const minute = at.slice(0, 'yyyy-mm-ddThh:mm'.length);
  if (used.minute !== minute) {
    used.minute = minute;
    used.keys.clear();
  }
  if (used.keys.has(id)) return false;
  used.keys.add(id);
  return true;
}

/** Whether a time, ISO 8601, has passed. */
export function hasExpired(expiresAt: string | null): boolean {
  return expiresAt !== null && expiresAt <= new Date().toISOString();
}

/**
 * Checks that an API key may be used for an operation. The account's role was checked before.
 * @param app the id of the operation's app; null for an operation without an app
 * @throws {Problem} `forbidden` when the key is for another app, is for one app but the operation needs a key for all apps, or
 *   has a scope that is too low
 */
export function requireKeyFor(key: KeyRights | null, operation: OperationRights, app: string | null): void {
  if (key === null) return;
  if (app === null && key.app !== null && !operation.oneApp)
    throw new Problem(
      'forbidden',
      `${operation.name} needs an API key for all apps; this one is for one app.`,
    );
  requireScope(key, scopeOf(operation), app);
}

/**
 * Limits a role on an app to what the API key may do.
 * @throws {Problem} `forbidden` when the key is for another app, or its scope is too low for `need`
 */
export function roleByKey(key: KeyRights, role: Role, need: Role, app: string): Role {
  requireScope(key, NEEDED[need], app);
  return RANK[key.scope] < RANK[NEEDED[role]] ? ROLE[key.scope] : role;
}

/** Checks that a key may create apps: it must be for all apps, with the scope deploy. @throws {Problem} `forbidden` */
export function requireKeyForNewApp(key: KeyRights | null): void {
  if (key === null) return;
  if (key.app !== null)
    throw new Problem('forbidden', 'A new app needs an API key for all apps; this one is for one app.');
  requireScope(key, 'deploy', null);
}

function requireScope(key: KeyRights, needed: KeyScope, app: string | null): void {
  if (app !== null && key.app !== null && key.app !== app)
    throw new Problem('forbidden', 'This API key is for another app.');
  if (RANK[key.scope] < RANK[needed])
    throw new Problem(
      'forbidden',
      `This operation needs an API key with the scope ${needed}; this API key has the scope ${key.scope}.`,
    );
}
