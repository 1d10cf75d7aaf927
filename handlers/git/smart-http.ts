// Git's smart HTTP protocol: authorizes the request (`authorize.ts`), then forwards it to the host's git. Packs pass through
// unread.
import type { Role } from '../../sqlite/control/people/access.ts';
import { requireRole } from '../access.ts';
import { audited, record } from '../audit.ts';
import type { RequestContext } from '../context.ts';
import { cutText } from '../contract/text.ts';
import { type HostClient, refuseRefused } from '../host/host-client.ts';
import { Problem, problemResponse } from '../problem.ts';
import { discard } from '../transports/body.ts';
import { RightsLost, sendWhileAllowed } from '../transports/while-allowed.ts';
import { authorize, type GitAccess, pushTo } from './authorize.ts';
import { reportRefusal } from './push-report.ts';
import { type Push, readPush, refusalsOf } from './receive-pack.ts';
import { fetchRefusal, readFetch } from './upload-pack.ts';

const PATH = /^\/v1\/git\/([^/]+)\/(info\/refs|git-upload-pack|git-receive-pack)$/;
const LFS_PATH = /^\/v1\/git\/[^/]+\/info\/lfs\//;
const NO_LFS =
  'Cellar does not store Git LFS objects: `git push --no-verify` pushes without them, and a deploy then has only their pointer files.';
/** Maximum refs of a push that the audit log names. */
const REFS_NAMED = 5;
/** Maximum characters of each of these refs. */
const REF_CHARACTERS = 100;
const CHALLENGE = 'Basic realm="git", charset="UTF-8"';

/** Answers `/v1/git/*`. */
export async function git(request: Request, context: RequestContext): Promise<Response> {
  try {
    return await serve(request, context);
  } catch (error) {
    if (error instanceof Problem && isReadByGit(request)) return textOf(error);
    if (error instanceof Problem && error.code === 'body_too_large') return fetchRefusal(error.message);
    throw error;
  }
}

async function serve(request: Request, context: RequestContext): Promise<Response> {
  const url = new URL(request.url);
  if (LFS_PATH.test(url.pathname)) return lfsRefusal();
  const [, name, service] = PATH.exec(url.pathname) ?? [];
  const method = service === 'info/refs' ? 'GET' : 'POST';
  if (name === undefined || service === undefined || request.method !== method) {
    throw new Problem('route_not_found', 'This address is only for git over smart HTTP, at /<slug>.');
  }
  requireService(service, url);
  const slug = slugOf(name);
  // The first request of a push, which reads the refs, already needs the role `push`.
  const need = [service, url.searchParams.get('service')].includes('git-receive-pack') ? 'push' : 'view';
  const access = await authorize(request, context, slug, need);
  const { appId, role } = access;
  const forward = (body: ReadableStream<Uint8Array> | null) =>
    passOn(context.host, request, { appId, service, search: searchOf(url), slug, role, body });
  if (service === 'git-receive-pack') return push(request, context, { ...access, slug }, forward);
  return service === 'git-upload-pack' ? forward((await readFetch(request)).stream()) : forward(null);
}

/** Maps a path of the git host to the API's: `/<slug>/…` becomes `/v1/git/<slug>/…`. */
export function gitHostPath(pathname: string): string {
  return pathname.startsWith('/v1/git/') ? pathname : `/v1/git${pathname}`;
}

/** Returns the header of a 401 that makes git ask for a password; no header for other errors. */
export function gitChallenge(problem: Problem): Record<string, string> {
  return problem.code === 'unauthorized' ? { 'www-authenticate': CHALLENGE } : {};
}

/**
 * Forwards a push that the role may make, and refuses other pushes. Writes an entry to the audit log. The host's git checks
 * forced updates, and refuses them for the role `push`.
 */
async function push(
  request: Request,
  context: RequestContext,
  { appId, role, actor, slug }: GitAccess & { slug: string },
  forward: (body: ReadableStream<Uint8Array>) => Promise<Response>,
): Promise<Response> {
  const push = await readPush(request);
  // A push without commands is the request by which git checks, before it sends a large pack, whether it may push.
  if (push.commands.length === 0) return forward(push.body);
  const author = { actor, via: 'git' as const };
  const target = pushTo(slug, pushed(push));
  const refusals = refusalsOf(push, role);
  if (refusals.size === 0) {
    const check = async () => {
      const now = await authorize(request, context, slug, 'view');
      if (now.appId !== appId) throw new Problem('app_not_found');
      requireRole(now.role, role);
    };
    const send = () => sendWhileAllowed(context, request, push.body, check, forward);
    try {
      return await audited(context, author, target, send);
    } catch (error) {
      const lost = error instanceof RightsLost ? error.message : null;
      const report = lost && reportRefusal(push, new Map(push.commands.map(({ ref }) => [ref, lost])));
      if (report) return report;
      throw error;
    }
  }
  await record(context, author, target, 'forbidden');
  await discard(push.body);
  const report = reportRefusal(push, refusals);
  if (report !== null) return report;
  throw new Problem('forbidden', `The push is refused: ${[...refusals.values()][0]}.`);
}

/** Returns the first refs of a push with their new commits. `more` has the number of further refs. */
function pushed({ commands }: Push): Record<string, string> {
  const named = commands
    .slice(0, REFS_NAMED)
    .map(({ ref, after }): [string, string] => [cutText(ref, REF_CHARACTERS, '…'), after]);
  const more = commands.length - named.length;
  return { ...Object.fromEntries(named), ...(more > 0 && { more: String(more) }) };
}

/** Returns the query that git sends. Drops other parameters, such as `home`, with which a client could select the host. */
function searchOf(url: URL): string {
  const service = url.searchParams.get('service');
  return service === null ? '' : `?${new URLSearchParams({ service })}`;
}

/**
 * Forwards a request to the host's git. The body of a push keeps its `content-encoding`. The body of a fetch was
 * decompressed before.
 */
async function passOn(
  host: HostClient,
  request: Request,
  to: {
    appId: string;
    service: string;
    search: string;
    slug: string;
    role: Role;
    body: ReadableStream<Uint8Array> | null;
  },
): Promise<Response> {
  const { appId: id, service, search, body } = to;
  const headers: Record<string, string> = { 'x-cellar-role': to.role, 'x-cellar-slug': to.slug };
  const coded = service === 'git-receive-pack' ? ['content-encoding'] : [];
  for (const name of ['content-type', 'git-protocol', 'accept', ...coded]) {
    const value = request.headers.get(name);
    if (value !== null) headers[name] = value;
  }
  const sent = { search, body, headers };
  const answer =
    request.method === 'GET'
      ? host.pass('GET /git/:id/:refs', { id, refs: service }, sent)
      : host.pass('POST /git/:id/:service', { id, service }, sent);
  return refuseRefused(await answer);
}

/** Refuses a request of Git LFS, which Git LFS sends before git pushes. Git LFS shows only messages in its own format. */
function lfsRefusal(): Response {
  const headers = { 'content-type': 'application/vnd.git-lfs+json' };
  return new Response(JSON.stringify({ message: NO_LFS }), { status: 501, headers });
}

/**
 * Returns whether git shows the text of an error response to this request. Git shows it only for the first request of a fetch
 * or push, and only as plain text.
 */
function isReadByGit({ method, headers }: Request): boolean {
  return method === 'GET' && (headers.get('user-agent') ?? '').startsWith('git/');
}

function textOf(problem: Problem): Response {
  const { status, headers } = problemResponse(problem, gitChallenge(problem));
  headers.set('content-type', 'text/plain; charset=utf-8');
  return new Response(`${problem.message}\n`, { status, headers });
}

function requireService(service: string, url: URL): void {
  if (service !== 'info/refs') return;
  const asked = url.searchParams.get('service');
  if (asked !== 'git-upload-pack' && asked !== 'git-receive-pack') {
    throw new Problem(
      'forbidden',
      'Cellar supports only the smart HTTP protocol of git; use git 1.6.6 or newer.',
    );
  }
}

function slugOf(name: string): string {
  return name.replace(/\.git$/, '').toLowerCase();
}
