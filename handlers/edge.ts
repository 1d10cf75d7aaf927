// Unauthenticated routes for proxies in front of Cellar, such as Caddy. They are not an API for clients. The host itself
// answers `/v1/edge/wake`.
import { findAppBySlug } from '../sqlite/control/apps/apps.ts';
import { mayHaveCertificate } from '../sqlite/control/people/access.ts';
import type { RequestContext } from './context.ts';
import { PreviewNames } from './preview-names.ts';
import { Problem } from './problem.ts';

/** Answers `/v1/edge/*`. */
export async function edge(request: Request, context: RequestContext): Promise<Response> {
  const url = new URL(request.url);
  const route = `${request.method} ${url.pathname}`;
  if (route === 'GET /v1/edge/tls-ask') return tlsAsk(url, context);
  throw new Problem('route_not_found');
}

/**
 * Returns 200 when a certificate may be requested for a name: the base domain, its `api.` and `git.`, an app that has a live
 * release and is not stopped, a live preview, or a proved custom hostname.
 * @throws {Problem} `unknown_host` for other names
 */
async function tlsAsk(url: URL, context: RequestContext): Promise<Response> {
  const { env, db } = context;
  const domain = hostnameOf(url.searchParams.get('domain') ?? '');
  const base = env.BASE_DOMAIN;
  const platform = [base, `api.${base}`, `git.${base}`];
  const label = labelOf(domain, base);
  if (
    platform.includes(domain) ||
    (await mayHaveCertificate(db, label, domain)) ||
    (await isPreview(label, context))
  ) {
    return new Response('ok\n', { headers: { 'content-type': 'text/plain' } });
  }
  throw new Problem('unknown_host');
}

const previewNames = new PreviewNames();

/** Whether a label belongs to a live preview, `<name>--<slug>`, that may have a certificate. */
async function isPreview(label: string | null, { db, host, at }: RequestContext): Promise<boolean> {
  const [name = '', slug = '', ...more] = label?.split('--') ?? [];
  if (slug === '' || more.length > 0) return false;
  const app = await findAppBySlug(db, slug);
  if (app === null) return false;
  const serves = (await host.call('GET /apps/:id/previews', { id: app.id })).some(
    (each) => each.serves && each.names.includes(name),
  );
  return serves && previewNames.may(app.id, name, Date.parse(at));
}

/** Normalizes a hostname: lower case, without the port and the final dot. */
function hostnameOf(host: string): string {
  return host.toLowerCase().replace(/:\d+$/, '').replace(/\.$/, '');
}

/** Returns the part of a hostname before the base domain, such as a slug; null for other hostnames. */
function labelOf(hostname: string, base: string): string | null {
  return hostname.endsWith(`.${base}`) ? hostname.slice(0, -base.length - 1) : null;
}
