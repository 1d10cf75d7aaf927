// Calls of Cloudflare's API that are not supported, and why. The call's error and docs/wrangler-calls.md show the reason.

const OWN =
  'storage belongs to one app: the first deploy that binds it makes it, and it is deleted with the app';
const SECRETS = 'a secret belongs to the app, not to one version: use `wrangler secret`';
const DOMAINS = 'use `cellar domains` to attach hostnames';
const PREVIEWS = {
  what: 'previews of Workers',
  why: 'use `wrangler versions upload --preview-alias`, or push a branch',
};
const REMOTE_DEV = {
  what: '`wrangler dev --remote`',
  why: 'use `wrangler dev`, or `wrangler versions upload` for a preview',
};
const ROUTES = `Cellar has no zones; ${DOMAINS}`;
const CONTAINERS = 'deploy with git or `cellar deploy`, and name an image that the operator has added';

/**
 * Unsupported calls, by method and path prefix; `*` matches one segment. The first match wins, so longer paths come before
 * shorter ones. An item without `method` matches every method.
 */
export const unanswered: readonly { method?: string; path: string; what: string; why: string }[] = [
  { path: '/accounts/*/workers/scripts/*/domains', what: 'custom domains', why: DOMAINS },
  { path: '/accounts/*/workers/scripts/*/routes', what: 'routes', why: ROUTES },
  { path: '/accounts/*/workers/domains', what: 'custom domains', why: DOMAINS },
  {
    path: '/zones/*/email',
    what: 'rules of e-mail routing',
    why: 'use `cellar mail` to choose the addresses of an app',
  },
  { path: '/zones', what: 'zones and routes', why: ROUTES },
  {
    path: '/accounts/*/workflows/*/instances/terminate',
    what: 'ending all instances of a Workflow at once',
    why: 'use `wrangler workflows instances terminate` for each instance',
  },
  {
    method: 'DELETE',
    path: '/accounts/*/workflows/*',
    what: 'deleting a Workflow',
    why: 'deploy the app without the binding: its Workflow is then gone',
  },
  {
    path: '/accounts/*/containers',
    what: 'Containers',
    why: CONTAINERS,
  },
  {
    path: '/accounts/*/cloudchamber',
    what: 'Cloudchamber',
    why: CONTAINERS,
  },
  {
    path: '/accounts/*/pages',
    what: 'Pages',
    why: 'a static site is an app: deploy it with `assets`, or push it',
  },
  {
    path: '/accounts/*/ai-gateway',
    what: 'AI Gateway',
    why: 'call your provider with `fetch()`',
  },
  {
    path: '/accounts/*/ai-search',
    what: 'AI Search',
    why: 'call a search service with `fetch()`',
  },
  {
    path: '/accounts/*/ai',
    what: 'models of Workers AI',
    why: 'the operator names the provider of `ai` bindings',
  },
  {
    path: '/accounts/*/artifacts',
    what: 'Artifacts',
    why: 'keep the files in R2, or in a repository of a Git host',
  },
  {
    path: '/accounts/*/challenges',
    what: 'Turnstile',
    why: 'make the widget in the dashboard of Cloudflare; the Worker checks its tokens with `fetch()`',
  },
  {
    path: '/accounts/*/triggers',
    what: 'event triggers of Workers',
    why: 'leave out `triggers.events`; alerts of an app report deploys and errors',
  },
  {
    path: '/accounts/*/agent-memory',
    what: 'Agent Memory',
    why: 'keep the memory in a Durable Object or D1',
  },
  {
    path: '/accounts/*/browser-rendering',
    what: 'Browser Rendering',
    why: 'run a browser beside Cellar, and connect to it from the Worker',
  },
  {
    path: '/accounts/*/cfd_tunnel',
    what: 'Tunnels',
    why: 'run `cloudflared` by itself, in front of Cellar',
  },
  {
    path: '/accounts/*/connectivity',
    what: 'VPC services',
    why: 'the operator opens private addresses with `RUNNER_EGRESS_ALLOW`',
  },
  {
    path: '/accounts/*/email',
    what: 'addresses of e-mail routing, and sending by the API',
    why: 'a Worker sends with a `send_email` binding',
  },
  {
    path: '/accounts/*/flagship',
    what: 'Flagship',
    why: 'keep flags in `vars` or KV',
  },
  { method: 'DELETE', path: '/accounts/*/vectorize/v2/indexes/*', what: 'deleting a vector index', why: OWN },
  {
    path: '/accounts/*/vectorize/indexes',
    what: "the first version of Vectorize's API",
    why: 'leave out `--deprecated-v1`',
  },
  {
    path: '/accounts/*/hyperdrive',
    what: 'configurations of Hyperdrive',
    why: "the connection string is the secret of the binding's name: use `wrangler secret put`",
  },
  {
    path: '/accounts/*/k2',
    what: 'K2 streams',
    why: 'use a queue, or a Durable Object',
  },
  {
    path: '/accounts/*/pipelines',
    what: 'Pipelines',
    why: 'a deploy makes the pipelines that it binds, each for a bucket of the app: docs/projects.md#pipelines',
  },
  {
    path: '/accounts/*/d1/database/*/time_travel',
    what: 'Time Travel',
    why: '`cellar restore --at TIME --database ID` restores an earlier state from a snapshot',
  },
  { method: 'DELETE', path: '/accounts/*/d1/database/*', what: 'deleting databases', why: OWN },
  {
    path: '/accounts/*/d1/database/*',
    what: 'settings of databases',
    why: 'Cellar has no read replication and no locations',
  },
  { method: 'DELETE', path: '/accounts/*/storage/kv/namespaces/*', what: 'deleting namespaces', why: OWN },
  {
    path: '/accounts/*/storage/kv/namespaces/*',
    what: 'renaming namespaces',
    why: 'the project names them: change its configuration, and deploy it',
  },
  {
    path: '/accounts/*/r2/buckets/*/cors',
    what: 'CORS of buckets',
    why: 'the Worker serves the bucket: set the headers there',
  },
  {
    path: '/accounts/*/r2/buckets/*/lifecycle',
    what: 'lifecycle rules of buckets',
    why: 'delete old objects in `scheduled()`',
  },
  {
    path: '/accounts/*/r2/buckets/*/lock',
    what: 'locks of buckets',
    why: 'have the Worker refuse what may not change',
  },
  {
    path: '/accounts/*/r2/buckets/*/domains',
    what: 'domains of buckets',
    why: 'the Worker serves the bucket at the addresses of its app',
  },
  {
    path: '/accounts/*/r2/buckets/*/sippy',
    what: 'Sippy',
    why: 'copy the objects once, with `wrangler r2 object put` or a Worker',
  },
  { method: 'DELETE', path: '/accounts/*/r2/buckets/*', what: 'deleting buckets', why: OWN },
  {
    path: '/accounts/*/r2/buckets/*',
    what: 'storage classes and other settings of buckets',
    why: 'Cellar has one storage class, and buckets have no settings',
  },
  {
    path: '/accounts/*/r2-catalog',
    what: 'the R2 Data Catalog',
    why: 'use an Iceberg catalog of your own',
  },
  {
    path: '/accounts/*/queues/*/messages',
    what: 'pulling from queues',
    why: 'a queue is consumed by the `queue()` of a Worker',
  },
  {
    path: '/accounts/*/queues/*/purge',
    what: 'purging queues',
    why: 'have the consumer acknowledge the messages',
  },
  { method: 'DELETE', path: '/accounts/*/queues/*', what: 'deleting queues', why: OWN },
  {
    path: '/accounts/*/queues/*',
    what: 'pausing queues, and their settings',
    why: 'the project has the settings of its consumer: change its configuration, and deploy it',
  },
  {
    path: '/accounts/*/event_notifications',
    what: 'event notifications of buckets',
    why: 'have the Worker that writes an object send the message',
  },
  {
    path: '/accounts/*/event_subscriptions',
    what: 'subscriptions to events',
    why: 'alerts of an app report deploys and errors',
  },
  { method: 'POST', path: '/accounts/*/workers/workers', ...PREVIEWS },
  { path: '/accounts/*/workers/workers/*/previews', ...PREVIEWS },
  { path: '/accounts/*/workers/workers/*', what: 'secrets of one version', why: SECRETS },
  { path: '/accounts/*/workers/scripts/*/versions', what: 'secrets of one version', why: SECRETS },
  { path: '/accounts/*/workers/scripts/*/edge-preview', ...REMOTE_DEV },
  { path: '/accounts/*/workers/scripts/*/subdomain/edge-preview', ...REMOTE_DEV },
  {
    path: '/accounts/*/workers/subdomain',
    what: '`wrangler dev --remote`, and changing the subdomain',
    why: 'use `wrangler dev`; the operator sets the base domain with `RUNNER_BASE_DOMAIN`',
  },
  {
    path: '/accounts/*/workers/scripts/*',
    what: 'downloading scripts, and their usage model',
    why: 'the source is in the repository, or on the machine that uploaded it',
  },
  {
    path: '/accounts/*/workers/services/*',
    what: 'environments of services',
    why: 'an environment is an app of its own: `<name>-<environment>`',
  },
  {
    path: '/graphql',
    what: 'analytics, except the size of a bucket',
    why: "`cellar stats` and the control UI show an app's metrics",
  },
];

/** Returns why a call is not supported; `null` for one that is not in the list. */
export function whyUnanswered(method: string, path: string): string | null {
  const words = path.split('/');
  const found = unanswered.find(
    ({ method: one = method, path }) =>
      one === method && path.split('/').every((word, at) => word === '*' || word === words[at]),
  );
  return found ? `${found.what}: ${found.why}` : null;
}
