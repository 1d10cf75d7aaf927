// What the edge asks, without a credential: not an API for clients.
import { answersAt } from '../sqlite/control/access.ts';
import type { Context } from './context.ts';
import { Problem } from './problem.ts';

/** Answers `/v1/edge/*`. */
export async function edge(request: Request, context: Context): Promise<Response> {
  const url = new URL(request.url);
  if (request.method === 'GET' && url.pathname === '/v1/edge/tls-ask') return tlsAsk(url, context);
  throw new Problem('route_not_found');
}

/** Whether a certificate may be asked for: 200 for names that something here answers to. */
async function tlsAsk(url: URL, { env, db }: Context): Promise<Response> {
  const domain = (url.searchParams.get('domain') ?? '').toLowerCase().replace(/\.$/, '');
  const base = env.BASE_DOMAIN;
  const platform = [base, `api.${base}`, `git.${base}`];
  const label = domain.endsWith(`.${base}`) ? domain.slice(0, -base.length - 1) : null;
  if (platform.includes(domain) || (domain !== '' && (await answersAt(db, label, domain)))) {
    return new Response('ok\n', { headers: { 'content-type': 'text/plain' } });
  }
  throw new Problem('unknown_host');
}
