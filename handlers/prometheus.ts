// `GET /metrics`: the figures of this Cellar as Prometheus reads them.
import { countAll } from '../sqlite/control/apps/apps.ts';
import type { Context } from './context.ts';
import { Problem } from './problem.ts';

/**
 * The host's text, and behind it what the control plane counts.
 * @throws {Problem} `forbidden` for anyone but the runner token, `host_unavailable`
 */
export async function prometheus({ actor, db, host }: Context): Promise<Response> {
  if (actor.kind !== 'runner')
    throw new Problem('forbidden', 'This needs the runner token; an API key may not do it.');
  const [text, { by_status, accounts, domains }] = await Promise.all([
    host.telemetry.prometheus(),
    countAll(db),
  ]);
  const own = [
    '# HELP cellar_apps Apps by status.\n# TYPE cellar_apps gauge\n',
    ...Object.entries(by_status).map(([status, count]) => `cellar_apps{status="${status}"} ${count}\n`),
    `# HELP cellar_accounts Accounts.\n# TYPE cellar_accounts gauge\ncellar_accounts ${accounts}\n`,
    `# HELP cellar_domains Custom domains.\n# TYPE cellar_domains gauge\ncellar_domains ${domains}\n`,
  ];
  return new Response(text + own.join(''), {
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
  });
}
