// Routes that the host calls. Without the host's secret, all of them except `POST /internal/git-auth` return 404.
import * as z from 'zod';
import { applyHostEvents } from '../../sqlite/control/apps/host-events.ts';
import { ensureFirstAccount } from '../../sqlite/control/people/accounts.ts';
import { takeCertificate } from '../../sqlite/control/people/client-certificates.ts';
import { ensureWelcome } from '../../sqlite/control/people/invites.ts';
import { findBoundSecret } from '../../sqlite/control/people/secret-stores.ts';
import { authenticate } from '../access.ts';
import type { StreamFact } from '../app/streams.ts';
import { WORKERS } from '../cloudflare/storage/secrets-store.ts';
import type { RequestContext } from '../context.ts';
import type { BoundCertificate } from '../contract/host/client-certificates.ts';
import type { AppReport, HostEvent, HostEvents } from '../contract/host/host-calls.ts';
import type { StoreSecret } from '../contract/host/store-secrets.ts';
import { newId } from '../contract/id.ts';
import { HOST_EVENTS_BYTES } from '../contract/sizes.ts';
import { grant } from '../git/authorize.ts';
import { hostReport } from '../hosts/report.ts';
import { Problem } from '../problem.ts';
import { hashOf, sameSecret } from '../secrets.ts';
import { shownDeploy, shownLines } from '../services/apps/deploys.ts';
import { readHostJson, readJson } from '../transports/body.ts';
import { validate } from '../transports/validate.ts';
import { storeReports } from './app-reports.ts';
import { checkDomains } from './domains.ts';
import { prune } from './prune.ts';
import { reconcile } from './reconcile.ts';
import { signIn } from './sign-in.ts';

const bootInput = z.strictObject({ api_key: z.string().min(16), welcome: z.string().min(16) });
const gitAuthInput = z.strictObject({
  slug: z.string(),
  key: z.string(),
  need: z.enum(['view', 'push']),
});

/** Answers `/internal/*`. */
export async function internal(request: Request, context: RequestContext): Promise<Response> {
  const { pathname } = new URL(request.url);
  const route = `${request.method} ${pathname}`;
  // The only route without the host's secret: it needs the runner token. An external control UI has the same route.
  if (route === 'POST /internal/git-auth') return gitAuth(request, context);
  const secret = request.headers.get('x-cellar-secret') ?? '';
  if (!(await sameSecret(secret, context.env.HOST_SECRET))) throw new Problem('route_not_found');
  if (route === 'POST /internal/host-events') return hostEvents(request, context);
  if (route === 'POST /internal/app-reports') {
    const reports = (await readHostJson(request, HOST_EVENTS_BYTES)) as AppReport[];
    return Response.json(await storeReports(context, reports));
  }
  if (route === 'POST /internal/store-secret')
    return Response.json(await sealedValue(context, (await readJson(request)) as StoreSecret));
  if (route === 'POST /internal/client-certificate')
    return Response.json(await takeCertificate(context.db, (await readJson(request)) as BoundCertificate));
  if (route === 'POST /internal/hosts/report') return hostReport(request, context);
  if (route === 'POST /internal/boot') return boot(request, context);
  if (pathname.startsWith('/internal/sign-in/')) return signIn(route, request, context);
  if (route === 'POST /internal/reconcile') return Response.json(await reconcile(context));
  if (route === 'POST /internal/prune') {
    await prune(context);
    return new Response(null, { status: 204 });
  }
  if (route === 'POST /internal/domains') {
    await checkDomains(context);
    return new Response(null, { status: 204 });
  }
  throw new Problem('route_not_found');
}

/** Returns the encrypted value of a secret for an app. Null: the secret does not exist, or its scopes lack `workers`. */
async function sealedValue({ reads }: RequestContext, asked: StoreSecret): Promise<string | null> {
  const found = await findBoundSecret(reads, asked);
  return found !== null && JSON.parse(found.scopes).includes(WORKERS) ? found.sealed : null;
}

async function hostEvents(request: Request, context: RequestContext): Promise<Response> {
  const facts = (await readHostJson(request, HOST_EVENTS_BYTES)) as HostEvents;
  const apps = await applyHostEvents(context.db, facts, context.env.HOST_ID || null);
  await publishDeploys(context, facts, apps);
  return new Response(null, { status: 204 });
}

/**
 * Publishes deploys on the streams of apps. If this fails, the host sends all facts again. D1 and streams skip repeated
 * facts.
 */
async function publishDeploys(
  context: RequestContext,
  { outbox, events }: HostEvents,
  apps: string[],
): Promise<void> {
  const publish = apps.map((id) => {
    const facts = events.flatMap((event) => streamed(event, id) ?? []);
    return context.app(id).publishDeploys(outbox, facts);
  });
  await Promise.all(publish);
}

/** Returns the event of an app's deploys stream for a host event; null for other apps' events and other types. */
function streamed(event: HostEvent, appId: string): StreamFact | null {
  if (event.type === 'deploy' && event.deploy.app_id === appId)
    return { seq: event.seq, event: null, data: shownDeploy(event.deploy) };
  if (event.type === 'lines' && event.lines.app_id === appId)
    return { seq: event.seq, event: 'log', data: shownLines(event.lines) };
  return null;
}

/**
 * Creates the first account with its API key, and the sign-up link of the first start, unless they exist. The response says
 * whether the link can still be used.
 */
async function boot(request: Request, { db, at }: RequestContext): Promise<Response> {
  const { api_key, welcome } = validate(bootInput, await readJson(request));
  const key = { id: newId(), name: 'first start', hash: await hashOf(api_key) };
  await ensureFirstAccount(db, { id: newId(), name: 'owner', at }, key);
  const open = await ensureWelcome(db, { id: newId(), hash: await hashOf(welcome), at });
  return Response.json({ welcome: open });
}

async function gitAuth(request: Request, context: RequestContext): Promise<Response> {
  const actor = await authenticate(request, context);
  if (actor.kind !== 'runner') throw new Problem('unauthorized', 'This route needs the runner token.');
  const { slug, key, need } = validate(gitAuthInput, await readJson(request));
  const { user_id, role } = await grant(context, slug, key, need);
  return Response.json({ user_id, role });
}
