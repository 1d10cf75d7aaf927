// Authorizes fetches from and pushes to an app's repository.

import { findAppBySlug } from '../../sqlite/control/apps/apps.ts';
import { findAccess, type Role, slugSince } from '../../sqlite/control/people/access.ts';
import { requireRole } from '../access.ts';
import type { RequestContext } from '../context.ts';
import { slug as slugSchema } from '../contract/apps/apps.ts';
import { newId } from '../contract/id.ts';
import { placeApp } from '../hosts/every-host.ts';
import { Problem } from '../problem.ts';
import { hashOf } from '../secrets.ts';

/** The rights of an API key on an app. */
export interface GitGrant {
  /** An account's id. */
  user_id: string;
  role: Role;
}

/**
 * Authorizes a request to the git host by the API key in its password. A push to a missing app creates the app if
 * `RUNNER_PUSH_TO_CREATE` is on.
 * @param need `view` to fetch, `push` to push; `receive-pack.ts` decides what the role may change
 * @throws {Problem} `unauthorized`, then `app_not_found`, then `forbidden`
 */
export async function authorize(
  request: Request,
  context: RequestContext,
  slug: string,
  need: Role,
): Promise<{ appId: string; role: Role }> {
  const key = passwordOf(request.headers);
  if (context.env.RUNNER_UI_URL === '') return grantAfterPush(request, context, slug, key, need);
  const role = await askControlUi(context, slug, key, need);
  const app = await findAppBySlug(context.db, slug);
  if (app === null) throw new Problem('app_not_found', `There is no app ${slug}.`);
  return { appId: app.id, role };
}

/**
 * Returns the rights of a key on a slug, from the accounts of this control plane.
 * @throws {Problem} `unauthorized`, then `app_not_found`, then `forbidden`
 */
export async function grant(
  db: D1Database,
  slug: string,
  key: string,
  need: Role,
): Promise<GitGrant & { appId: string }> {
  const access = await findAccess(db, await hashOf(key), slug);
  if (access.account_id === null) throw new Problem('unauthorized', 'The API key is wrong.');
  if (access.app_id === null) throw new MissingApp(slug, access.account_id);
  return { user_id: access.account_id, appId: access.app_id, role: requireRole(access.role, need) };
}

/** A valid key was used for a slug without an app. */
class MissingApp extends Problem {
  readonly account: string;
  constructor(slug: string, account: string) {
    super('app_not_found', `There is no app ${slug}.`);
    this.account = account;
  }
}

/**
 * Like `grant`. The error for a renamed app names the new remote. A push to a missing app creates it, or the error says how.
 */
async function grantAfterPush(
  request: Request,
  context: RequestContext,
  slug: string,
  key: string,
  need: Role,
): Promise<{ appId: string; role: Role }> {
  try {
    return await grant(context.db, slug, key, need);
  } catch (error) {
    if (!(error instanceof MissingApp)) throw error;
    const since = await slugSince(context.db, slug, error.account);
    if (since !== null) {
      const url = `${context.env.PUBLIC_GIT_URL}/${since}`;
      const how = `\`git remote set-url <remote> ${url}\` leads there`;
      throw new Problem('app_not_found', `The app ${slug} is called ${since} now: ${how}.`);
    }
    if (need !== 'push' || request.method !== 'GET') throw error;
    await createForPush(context, slug, error.account);
    return grant(context.db, slug, key, need);
  }
}

/** @throws {Problem} why the app cannot be created, with how to create it */
async function createForPush(
  { env, db, app, at }: RequestContext,
  slug: string,
  owner: string,
): Promise<void> {
  const checked = slugSchema.safeParse(slug);
  if (!checked.success) {
    const { message } = checked.error.issues[0]!;
    throw new Problem(
      'app_not_found',
      `There is no app ${slug}, and none can be called so: the name ${message}.`,
    );
  }
  if (env.RUNNER_PUSH_TO_CREATE !== 'on') {
    const how = `\`cellar create ${slug}\` makes it, or POST ${env.PUBLIC_API_URL}/v1/apps with {"slug": "${slug}"}`;
    throw new Problem('app_not_found', `There is no app ${slug}. ${how}; then push again.`);
  }
  const id = newId();
  const made = await app(id).create({
    id,
    slug,
    owner,
    quota: Number(env.RUNNER_MAX_APPS_PER_USER),
    storage: env.RUNNER_STORAGE,
    home: await placeApp({ env }),
    at,
  });
  // A concurrent push may have created it.
  if (!made.ok && (await findAppBySlug(db, slug)) === null) throw new Problem(made.code, made.detail);
}

const JSON_BODY = { 'content-type': 'application/json' };

async function askControlUi(context: RequestContext, slug: string, key: string, need: Role): Promise<Role> {
  const sent = { search: '', body: JSON.stringify({ slug, key, need }), headers: JSON_BODY };
  const response = await context.host.pass('POST /ui/git-auth', {}, sent);
  if (response.status === 401) throw new Problem('unauthorized', 'The API key is wrong.');
  if (response.status === 404) throw new Problem('app_not_found', `There is no app ${slug}.`);
  if (response.status === 403) throw new Problem('forbidden');
  if (!response.ok)
    throw new Problem(
      'host_unavailable',
      'The control UI did not say whose key this is; try again in a moment.',
    );
  const { role } = (await response.json()) as { role?: unknown };
  // A missing role is a refusal.
  return requireRole(role, need);
}

/** @throws {Problem} `unauthorized` */
function passwordOf(headers: Headers): string {
  const basic = /^Basic +([\w+/=-]+) *$/i.exec(headers.get('authorization') ?? '');
  const [, user, password] = /^([^:]*):(.*)$/s.exec(basic ? decodeBase64(basic[1]!) : '') ?? [];
  if (user !== 'git' || !password) {
    throw new Problem('unauthorized', 'Sign in as user `git` with a profile API key as the password.');
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
