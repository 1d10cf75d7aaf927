// `GET /metrics`: the metrics of this Cellar for Prometheus.
import { countAll } from '../sqlite/control/apps/apps.ts';
import type { Context } from './context.ts';
import { metricsOf } from './hosts/merged.ts';
import { Problem } from './problem.ts';

/**
 * Returns the metrics of all hosts, followed by those of the control plane.
 * @throws {Problem} `forbidden` without the runner token, `host_unavailable`
 */
export async function prometheus({ actor, ...context }: Context): Promise<Response> {
  if (actor.kind !== 'runner')
    throw new Problem('forbidden', 'The metrics need the runner token; an API key cannot read them.');
  const [text, { by_status, accounts, domains }] = await Promise.all([
    metricsOf(context),
    countAll(context.db),
  ]);
  const own = [
    '# HELP cellar_apps Number of apps, by status.\n# TYPE cellar_apps gauge\n',
    ...Object.entries(by_status).map(([status, count]) => `cellar_apps{status="${status}"} ${count}\n`),
    `# HELP cellar_accounts Number of accounts.\n# TYPE cellar_accounts gauge\ncellar_accounts ${accounts}\n`,
    `# HELP cellar_domains Number of custom domains.\n# TYPE cellar_domains gauge\ncellar_domains ${domains}\n`,
  ];
  return new Response(text + own.join(''), {
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
  });
}
