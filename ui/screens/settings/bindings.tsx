// The bindings of the app's Worker, without its variables and secrets.
import type { Binding, variablesModel } from '../../models/settings.ts';
import { IconWaypoints } from '../../parts/icons.tsx';
import { Empty } from '../../parts/status/states.tsx';
import { Listed } from '../../parts/tables/pages.tsx';

const KINDS: Record<Binding['type'], string> = {
  ai: 'AI',
  analytics_engine: 'Analytics Engine',
  assets: 'Static assets',
  browser: 'Browser',
  container: 'Container of a class',
  d1: 'D1 database',
  dispatch_namespace: 'Dispatch namespace',
  durable_object_namespace: 'Durable Objects',
  hyperdrive: 'Hyperdrive',
  images: 'Images',
  kv_namespace: 'KV namespace',
  missing: 'Not available here',
  mtls_certificate: 'Client certificate',
  pipelines: 'Pipeline',
  queue: 'Queue',
  queue_consumer: 'Consumer of a queue',
  r2_bucket: 'R2 bucket',
  ratelimit: 'Rate limit',
  secrets_store_secret: 'Secret of a store',
  send_email: 'E-mail',
  service: 'Service',
  tail_consumer: 'Tail Worker',
  vectorize: 'Vector index',
  version_metadata: 'Version metadata',
  worker_loader: 'Worker loader',
  workflow: 'Workflow',
};

export function Bindings({ of }: { of: ReturnType<typeof variablesModel>['bindings'] }) {
  return (
    <section class="panel" aria-labelledby="bindings">
      <header>
        <h2 id="bindings">Bindings of the Worker</h2>
      </header>
      <Listed
        of={of}
        label="Bindings"
        columns={[
          { name: 'Name', cell: ({ name }: Binding) => <code class="cut">{name}</code> },
          { name: 'Kind', label: 'kind', cell: ({ type }) => KINDS[type] },
          {
            name: 'Leads to',
            label: 'leads to',
            wide: true,
            cell: ({ target }) => target !== null && <span class="cut">{target}</span>,
          },
        ]}
        empty={
          <Empty title="No bindings" icon={IconWaypoints}>
            <p>Bindings of the Wrangler configuration appear here with the next deploy.</p>
          </Empty>
        }
      />
    </section>
  );
}
