// Git's smart HTTP protocol: who may do what, then the host's git. Packs pass through unread.
import { findAccess, type Role, slugSince } from '../../sqlite/control/access.ts';
import { findAppBySlug } from '../../sqlite/control/apps.ts';
import { requireRole } from '../access.ts';
import type { RequestContext } from '../context.ts';
import { slug as slugSchema } from '../contract/apps.ts';
import { newId } from '../contract/id.ts';
import { Problem, problemResponse } from '../problem.ts';
import { hashOf } from '../secrets.ts';
import { discard } from '../transports/body.ts';
import { reportRefusal } from './push-report.ts';
import { readPush, refusalsOf } from './receive-pack.ts';

const PATH = /^\/v1\/git\/([^/]+)\/(info\/refs|git-upload-pack|git-receive-pack)$/;
const LFS_PATH = /^\/v1\/git\/[^/]+\/info\/lfs\//;
const NO_LFS =
  'Git LFS objects are not kept here: `git push --no-verify` pushes without them, and a deploy has their pointers.';
const CHALLENGE = 'Basic realm="git", charset="UTF-8"';

/** What an outside control UI or this control plane says about a key. */
export interface GitGrant {
  /** An account's id. */
  user_id: string;
  role: Role;
}

/** Answers `/v1/git/*`. */
export async function git(request: Request, context: RequestContext): Promise<Response> {
  try {
    return await serve(request, context);
  } catch (error) {
    if (error instanceof Problem && isReadByGit(request)) return textOf(error);
    throw error;
  }
}

async function serve(request: Request, context: RequestContext): Promise<Response> {
  const url = new URL(request.url);
  if (LFS_PATH.test(url.pathname)) return lfsRefusal();
  const [, name, service] = PATH.exec(url.pathname) ?? [];
  const method = service === 'info/refs' ? 'GET' : 'POST';
  if (name === undefined || service === undefined || request.method !== method) {
    throw new Problem('route_not_found', 'This host speaks git over smart HTTP, at /<slug>.');
  }
  requireService(service, url);
  const slug = slugOf(name);
  // A push is refused where it begins: with the reading of the refs.
  const need = [service, url.searchParams.get('service')].includes('git-receive-pack') ? 'push' : 'view';
  const { appId, role } = await authorize(request, context, slug, need);
  const forward = (body: ReadableStream<Uint8Array> | null) =>
    context.host.git(request, { appId, service, search: url.search, slug, role, body });
  return service === 'git-receive-pack' && role === 'push'
    ? checked(request, forward)
    : forward(request.body);
}

/** The path that a request to the git host stands for: `/<slug>/…` is `/v1/git/<slug>/…`. */
export function gitHostPath(pathname: string): string {
  return pathname.startsWith('/v1/git/') ? pathname : `/v1/git${pathname}`;
}

/** The challenge that makes git ask for a password. */
export function gitChallenge(problem: Problem): Record<string, string> {
  return problem.code === 'unauthorized' ? { 'www-authenticate': CHALLENGE } : {};
}

/**
 * What a key may do on a slug, from the accounts of this control plane.
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

/** Passes a push on when the role `push` covers what it asks for. Forced updates are left to git to tell. */
async function checked(
  request: Request,
  forward: (body: ReadableStream<Uint8Array>) => Promise<Response>,
): Promise<Response> {
  const push = await readPush(request);
  const refusals = refusalsOf(push);
  if (refusals.size === 0) return forward(push.body);
  await discard(push.body);
  const report = reportRefusal(push, refusals);
  if (report !== null) return report;
  throw new Problem('forbidden', 'Deleting, and moving what is no branch, needs the role admin.');
}

/** Git LFS asks before git pushes, and shows a message in its own format only. */
function lfsRefusal(): Response {
  const headers = { 'content-type': 'application/vnd.git-lfs+json' };
  return new Response(JSON.stringify({ message: NO_LFS }), { status: 501, headers });
}

/** Git shows its user why it was refused at the first request of an exchange, and only what is plain text. */
function isReadByGit({ method, headers }: Request): boolean {
  return method === 'GET' && (headers.get('user-agent') ?? '').startsWith('git/');
}

function textOf(problem: Problem): Response {
  const { status, headers } = problemResponse(problem, gitChallenge(problem));
  headers.set('content-type', 'text/plain; charset=utf-8');
  return new Response(`${problem.message}\n`, { status, headers });
}

async function authorize(
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

/** A slug that no app has, asked for with a right key. */
class MissingApp extends Problem {
  readonly account: string;
  constructor(slug: string, account: string) {
    super('app_not_found', `There is no app ${slug}.`);
    this.account = account;
  }
}

/** Like `grant`. Of an app that was renamed it says the new remote; a push to no app at all makes it, or is told how. */
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

/** @throws {Problem} why the app is not made, with how to make it */
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
  const made = await app(id).create({ id, slug, owner, quota: Number(env.RUNNER_MAX_APPS_PER_USER), at });
  // Another push may have made it a moment ago: then it is there.
  if (!made.ok && (await findAppBySlug(db, slug)) === null) throw new Problem(made.code, made.detail);
}

async function askControlUi(context: RequestContext, slug: string, key: string, need: Role): Promise<Role> {
  const response = await context.host.askControlUi({ slug, key, need });
  if (response.status === 401) throw new Problem('unauthorized', 'The API key is wrong.');
  if (response.status === 404) throw new Problem('app_not_found', `There is no app ${slug}.`);
  if (response.status === 403) throw new Problem('forbidden');
  if (!response.ok) throw new Problem('host_unavailable', 'The control UI did not say who this is.');
  const { role } = (await response.json()) as { role?: unknown };
  // An answer without a role is a refusal.
  return requireRole(role, need);
}

function requireService(service: string, url: URL): void {
  if (service !== 'info/refs') return;
  const asked = url.searchParams.get('service');
  if (asked !== 'git-upload-pack' && asked !== 'git-receive-pack') {
    throw new Problem('forbidden', 'Only the smart HTTP protocol is spoken here; use git 1.6.6 or newer.');
  }
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

function slugOf(name: string): string {
  return name.replace(/\.git$/, '').toLowerCase();
}
