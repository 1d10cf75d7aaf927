// The calls of Cloudflare's API that Wrangler makes, implemented with our own services. docs/wrangler-calls.md lists them.

import { type AppRow, findAppBySlug } from '../../sqlite/control/apps/apps.ts';
import type { Actor } from '../access.ts';
import { authenticate, authorize, keyOf } from '../access.ts';
import { audited, detailsOf, isAudited, type Target } from '../audit.ts';
import type { Context, RequestContext } from '../context.ts';
import { BODY_BYTES } from '../contract/sizes.ts';
import { requireKeyForNewApp } from '../key-scopes.ts';
import { Problem, retryHeaders } from '../problem.ts';
import { discard, readBytes, requireModerate } from '../transports/body.ts';
import { requireDataDestination } from '../transports/destination.ts';
import { failure } from '../transports/failure.ts';
import { holdBody, holderOf } from '../transports/large-bodies.ts';
import { invalidInput } from '../transports/validate.ts';
import { accountCalls, requireAccount } from './accounts.ts';
import { type Call, type CallContext, Page } from './call.ts';
import { asCloudflareError, CloudflareError, CODES, unsupported } from './codes.ts';
import { requireSlug } from './names.ts';
import { analyticsEngineCalls } from './storage/analytics-engine.ts';
import { databaseCalls } from './storage/d1.ts';
import { namespaceCalls } from './storage/kv.ts';
import { mtlsCertificateCalls } from './storage/mtls-certificates.ts';
import { queueCalls } from './storage/queues.ts';
import { bucketCalls } from './storage/r2.ts';
import { secretsStoreCalls } from './storage/secrets-store.ts';
import { vectorizeCalls } from './storage/vectorize.ts';
import { workflowCalls } from './storage/workflows.ts';
import { assetCalls } from './workers/assets.ts';
import { dispatchCalls, slugInNamespace } from './workers/dispatch.ts';
import { referenceCalls } from './workers/references.ts';
import { scriptCalls } from './workers/scripts.ts';
import { secretCalls } from './workers/secrets.ts';
import { siteCalls } from './workers/sites.ts';
import { tailCalls } from './workers/tails.ts';
import { versionCalls } from './workers/versions.ts';

const BASE = '/client/v4';

export const calls: readonly Call[] = [
  ...accountCalls,
  ...scriptCalls,
  ...referenceCalls,
  ...dispatchCalls,
  ...assetCalls,
  ...versionCalls,
  ...secretCalls,
  ...databaseCalls,
  ...siteCalls,
  ...namespaceCalls,
  ...bucketCalls,
  ...vectorizeCalls,
  ...queueCalls,
  ...workflowCalls,
  ...secretsStoreCalls,
  ...mtlsCertificateCalls,
  ...analyticsEngineCalls,
  ...tailCalls,
];

const routes = calls.map((call) => ({ call, pattern: patternOf(call.path) }));

export function isCloudflarePath(pathname: string): boolean {
  return pathname === BASE || pathname.startsWith(`${BASE}/`);
}

/** Answers a call of Cloudflare's API. Errors have Cloudflare's format, because Wrangler understands no other. */
export async function cloudflare(request: Request, context: RequestContext): Promise<Response> {
  try {
    requireDataDestination(request);
    return await answer(request, context);
  } catch (error) {
    const known = error instanceof CloudflareError ? error : asCloudflareError(await failure(error, context));
    if (request.body && !request.bodyUsed) await discard(request.body);
    const { status, code, message } = known;
    return envelope({ success: false, errors: [{ code, message }], messages: [], result: null }, status);
  }
}

async function answer(request: Request, context: RequestContext): Promise<Response> {
  const url = new URL(request.url);
  const path = url.pathname.slice(BASE.length);
  const found = routes.find(({ call, pattern }) => call.method === request.method && pattern.test(path));
  if (found === undefined) {
    await authenticate(request, context);
    throw unsupported(request.method, path);
  }
  const { call, pattern } = found;
  const words = decoded(pattern.exec(path)!.groups ?? {});
  const whoNow = async (): Promise<Actor> =>
    call.needs === 'none' ? { kind: 'runner' } : authenticate(request, context);
  const acting: Context = { ...context, actor: await whoNow(), whoNow, via: 'wrangler', isAudited: true };
  const account = words.account ?? '';
  if (call.needs !== 'none' && words.account !== undefined) await requireAccount(acting, account);
  const result = await logged(acting, call, words, (logs) =>
    answered(acting, call, { request, url, account, words, ...logs }),
  );
  if (result instanceof Response) return result;
  const info =
    result instanceof Page ? { result: result.items, result_info: result.info } : { result: result ?? null };
  return envelope({ success: true, errors: [], messages: [], ...info }, 200);
}

/** Authorizes the caller for the account or for the app in the path, and runs a call. */
async function answered(
  context: Context,
  call: Call,
  asked: Pick<CallContext, 'request' | 'url' | 'account' | 'words' | 'setApp' | 'note'>,
): Promise<unknown> {
  const { account, words } = asked;
  if (call.as?.needs === 'account') await authorize(context, call.as, {});
  const app = words.script === undefined ? null : await appOf(context, call, account, words, asked.setApp);
  if (call.mayBeNew && app === null) requireKeyForNewApp(keyOf(context.actor));
  const full: CallContext = { ...context, ...asked, as: call.as };
  return call.answer(full, await bodyOf(full, call), app);
}

/** Runs `work` for a call. Writes an entry in the audit log if the call changes something. */
function logged(
  context: Context,
  { as, method, path }: Call,
  words: Record<string, string>,
  work: (logs: Pick<CallContext, 'setApp' | 'note'>) => Promise<unknown>,
): Promise<unknown> {
  // A call that creates storage has `as: 'apps.create'`, but only checks the name. The first deploy that binds the storage
  // creates it. A call that creates a dispatch namespace has the same `as`, and creates it.
  const changesNothing = as?.name === 'apps.create' && !path.includes('/dispatch/');
  if (as === null || method === 'GET' || !isAudited(as) || changesNothing)
    return work({ setApp: () => {}, note: () => {} });
  const { script = null, secret, store, namespace, dispatch, database, ...others } = words;
  const named = { ...others, name: secret, namespace_id: namespace, database, dispatch, storage: store };
  // The name of a script in a dispatch namespace is not a slug. It may equal the slug of another app.
  const isScript = dispatch !== undefined;
  const own = detailsOf({ ...named, account: undefined, ...(isScript && { script }) });
  const details = { ...own, call: `${method} ${path}` };
  const target: Target = { operation: as.name, app: { id: null, slug: isScript ? null : script }, details };
  return audited(context, context, target, () =>
    work({
      setApp: ({ id, slug }) => {
        target.app = { id, slug };
      },
      note: (more) => Object.assign(details, detailsOf(more)),
    }),
  );
}

async function appOf(
  context: Context,
  call: Call,
  account: string,
  { script: name = '', dispatch }: Record<string, string>,
  setApp: CallContext['setApp'],
): Promise<AppRow | null> {
  const slug = dispatch === undefined ? name : await slugInNamespace(context, account, dispatch, name);
  const app = await findAppBySlug(context.reads, slug);
  if (app === null) {
    if (dispatch === undefined && !isAskedForScripts(call)) requireSlug(name);
    if (call.mayBeNew) return null;
    throw notThere(call, name);
  }
  if (dispatch !== undefined) setApp(app);
  if (context.actor.kind === 'runner' && app.owner_id !== account)
    throw new CloudflareError(
      403,
      CODES.AUTHENTICATION,
      `The app ${name} belongs to the account ${app.owner_id}: set CLOUDFLARE_ACCOUNT_ID to ${app.owner_id}.`,
    );
  try {
    await authorize(context, call.as!, { id: app.id });
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    throw new CloudflareError(
      403,
      isAskedForScripts(call) ? CODES.SCRIPT_NOT_FOUND : CODES.AUTHENTICATION,
      `The name ${name} is taken by an app of another account. ${error.message}`,
    );
  }
  return app;
}

/**
 * Returns whether this is the call that lists secrets. Wrangler also makes this call before it uploads a script to a
 * dispatch namespace. Then the path has the script's name in place of an app's slug, and Wrangler continues only when the answer is
 * that there is no such app.
 */
function isAskedForScripts({ method, path }: Call): boolean {
  return method === 'GET' && path === '/accounts/:account/workers/scripts/:script/secrets';
}

function notThere({ path }: Call, name: string): CloudflareError {
  if (path.includes('/dispatch/'))
    return new CloudflareError(
      404,
      CODES.DISPATCHED_NOT_FOUND,
      `There is no script ${name}: \`wrangler deploy --dispatch-namespace\` makes it.`,
    );
  const isService = path.includes('/workers/services/');
  return new CloudflareError(
    404,
    isService ? CODES.SERVICE_NOT_FOUND : CODES.SCRIPT_NOT_FOUND,
    `There is no app ${name}: \`wrangler deploy\` makes it.`,
  );
}

async function bodyOf(context: CallContext, { body, bodyLimit }: Call): Promise<unknown> {
  if (body === undefined) return undefined;
  const { request } = context;
  if (bodyLimit !== undefined) holdBody(request, holderOf(context));
  const bytes = await readBytes(request, bodyLimit ?? BODY_BYTES);
  const result = body.safeParse(parse(new TextDecoder().decode(bytes)));
  if (result.success) return result.data;
  const { path, message } = result.error.issues[0]!;
  throw invalidInput([{ path: path.map(String).join('.'), message }]);
}

function parse(text: string): unknown {
  if (text === '') return {};
  requireModerate(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Problem('malformed_json', `The body is not JSON: ${(error as Error).message}`);
  }
}

function envelope(body: object, status: number): Response {
  return Response.json(body, { status, headers: { 'cache-control': 'no-store', ...retryHeaders(status) } });
}

function patternOf(path: string): RegExp {
  const pattern = path.replace(/:(\w+)(\+?)/g, (_, name: string, rest: string) =>
    rest ? `(?<${name}>.+)` : `(?<${name}>[^/]+)`,
  );
  return new RegExp(`^${pattern}$`);
}

function decoded(words: Record<string, string>): Record<string, string> {
  try {
    return Object.fromEntries(Object.entries(words).map(([name, text]) => [name, decodeURIComponent(text)]));
  } catch {
    throw new Problem('bad_request', 'The path has a broken percent escape.');
  }
}
