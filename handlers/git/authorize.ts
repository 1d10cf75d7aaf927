// Authorizes fetches from and pushes to an app's repository.

import { findAppBySlug } from '../../sqlite/control/apps/apps.ts';
import { findAccess, type Role, slugSince } from '../../sqlite/control/people/access.ts';
import { type Actor, requireRole } from '../access.ts';
import { record, type Target } from '../audit.ts';
import type { RequestContext } from '../context.ts';
import { slug as slugSchema } from '../contract/apps/apps.ts';
import { newId } from '../contract/id.ts';
import { placeApp } from '../hosts/every-host.ts';
import { requireKeyForNewApp, roleByKey, usableKey } from '../key-scopes.ts';
import { Problem } from '../problem.ts';
import { hashOf } from '../secrets.ts';

/** The account of an API key, and the key's role on an app. */
export interface GitGrant {
  /** An account's id. */
  user_id: string;
  role: Role;
}

/** An authorized request: its app, and the caller with the role on the app. */
export interface GitAccess {
  appId: string;
  role: Role;
  actor: Actor;
}

/**
 * Authorizes a request to the git host by the API key in its password. The first request of a push creates a missing app if
 * `RUNNER_PUSH_TO_CREATE` is on. With an external control UI (`RUNNER_UI_URL`), no push creates an app.
 * @param need the needed role: `view` to fetch, `push` to push. `receive-pack.ts` checks later which refs the role may change
 * @throws {Problem} `unauthorized`, then `app_not_found`, then `forbidden`
 */
export async function authorize(
  request: Request,
  context: RequestContext,
  slug: string,
  need: Role,
): Promise<GitAccess> {
  const key = passwordOf(request.headers);
  if (context.env.RUNNER_UI_URL === '') return grantAfterPush(request, context, slug, key, need);
  const { role, user } = await askControlUi(context, slug, key, need);
  const app = await findAppBySlug(context.db, slug);
  if (app === null) throw new Problem('app_not_found', `There is no app ${slug}.`);
  return { appId: app.id, role, actor: { kind: 'account', id: user, runs: false, key: null } };
}

/**
 * Returns the rights of an API key on the app with a slug, according to the accounts of this control plane. Writes a
 * forbidden push to the audit log.
 * @throws {Problem} `unauthorized`, then `app_not_found`, then `forbidden`
 */
export async function grant(
  context: RequestContext,
  slug: string,
  key: string,
  need: Role,
): Promise<GitGrant & GitAccess> {
  const access = await findAccess(context.db, await hashOf(key), slug);
  if (access.key === null) throw new Problem('unauthorized', 'The API key is wrong.');
  const { account_id: id } = access.key;
  const rights = usableKey(context, access.key);
  const actor = { kind: 'account' as const, id, runs: false, key: rights };
  if (access.app_id === null) throw new MissingApp(slug, actor);
  try {
    const role = roleByKey(rights, requireRole(access.role, need), need, access.app_id);
    return { user_id: id, appId: access.app_id, role, actor };
  } catch (error) {
    if (need === 'push') await record(context, { actor, via: 'git' }, pushTo(slug), 'forbidden');
    throw error;
  }
}

/** Returns the audit log's description of a push. @param details refs of the push, and their new commits */
export function pushTo(slug: string, details: Record<string, string> = {}): Target {
  return { operation: 'git.push', app: { id: null, slug }, details };
}

type KeyHolder = Extract<Actor, { kind: 'account' }>;

/** Thrown when a valid API key is used for a slug without an app. `actor` is the key's account. */
class MissingApp extends Problem {
  readonly actor: KeyHolder;
  constructor(slug: string, actor: KeyHolder) {
    super('app_not_found', `There is no app ${slug}.`);
    this.actor = actor;
  }
}

/**
 * Like `grant`. The error for a renamed app names the new remote. The first request of a push creates a missing app, or the
 * error says why it cannot be created.
 */
async function grantAfterPush(
  request: Request,
  context: RequestContext,
  slug: string,
  key: string,
  need: Role,
): Promise<GitAccess> {
  try {
    return await grant(context, slug, key, need);
  } catch (error) {
    if (!(error instanceof MissingApp)) throw error;
    const since = await slugSince(context.db, slug, error.actor.id);
    if (since !== null) {
      const url = `${context.env.PUBLIC_GIT_URL}/${since}`;
      const how = `\`git remote set-url <remote> ${url}\` sets the new address`;
      throw new Problem('app_not_found', `The app ${slug} is called ${since} now: ${how}.`);
    }
    if (need !== 'push' || request.method !== 'GET') throw error;
    await createForPush(context, slug, error.actor);
    return grant(context, slug, key, need);
  }
}

/** Creates the app of a push. @throws {Problem} why the app cannot be created */
async function createForPush(context: RequestContext, slug: string, actor: KeyHolder): Promise<void> {
  const { env, db, app, at } = context;
  const checked = slugSchema.safeParse(slug);
  if (!checked.success) {
    const { message } = checked.error.issues[0]!;
    throw new Problem(
      'app_not_found',
      `There is no app ${slug}, and no app can have this name: the name ${message}.`,
    );
  }
  if (env.RUNNER_PUSH_TO_CREATE !== 'on') {
    const how = `\`cellar create ${slug}\` makes it, or POST ${env.PUBLIC_API_URL}/v1/apps with {"slug": "${slug}"}`;
    throw new Problem('app_not_found', `There is no app ${slug}. ${how}; then push again.`);
  }
  requireKeyForNewApp(actor.key);
  const id = newId();
  const made = await app(id).create({
    id,
    slug,
    owner: actor.id,
    quota: Number(env.RUNNER_MAX_APPS_PER_USER),
    storage: env.RUNNER_STORAGE,
    home: await placeApp({ env }),
    dispatch: null,
    at,
  });
  // A concurrent push may have created the app.
  if (!made.ok && (await findAppBySlug(db, slug)) === null) throw new Problem(made.code, made.detail);
  const target = { operation: 'apps.create', app: { id, slug }, details: {} };
  if (made.ok) await record(context, { actor, via: 'git' }, target, 'ok');
}

const JSON_BODY = { 'content-type': 'application/json' };

async function askControlUi(context: RequestContext, slug: string, key: string, need: Role) {
  const sent = { search: '', body: JSON.stringify({ slug, key, need }), headers: JSON_BODY };
  const response = await context.host.pass('POST /ui/git-auth', {}, sent);
  if (response.status === 401) throw new Problem('unauthorized', 'The API key is wrong.');
  if (response.status === 404) throw new Problem('app_not_found', `There is no app ${slug}.`);
  if (response.status === 403) throw new Problem('forbidden');
  if (!response.ok)
    throw new Problem(
      'host_unavailable',
      'The control UI did not confirm the API key; try again in a moment.',
    );
  const { role, user_id: user } = (await response.json()) as { role?: unknown; user_id?: unknown };
  // `requireRole` also refuses an answer without a role.
  return { role: requireRole(role, need), user: typeof user === 'string' ? user : 'unknown' };
}

/** Returns the password of HTTP Basic authentication, which is an API key. @throws {Problem} `unauthorized` */
function passwordOf(headers: Headers): string {
  const basic = /^Basic +([\w+/=-]+) *$/i.exec(headers.get('authorization') ?? '');
  const [, user, password] = /^([^:]*):(.*)$/s.exec(basic ? decodeBase64(basic[1]!) : '') ?? [];
  if (user !== 'git' || !password) {
    throw new Problem(
      'unauthorized',
      'Sign in as user `git` with an API key of your account as the password.',
    );
  }
  return password;
}

function decodeBase64(text: string): string {
  try {
    return atob(text);
  } catch {
    return '';
  }
}
