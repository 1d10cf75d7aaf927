// What of Cloudflare's API is not answered, and why: the error of such a call says so, and docs/wrangler-calls.md lists it.

const NO_SUCH = 'Cellar does not run these';
const OWN =
  "an app's storage is its own: it is made by the first deploy that binds it, and goes with the app";

/** By the beginning of a path, or all of it; `*` is one word. */
export const unanswered: readonly { path: string; what: string; why: string }[] = [
  {
    path: '/accounts/*/workers/scripts/*/domains',
    what: 'custom domains',
    why: '`cellar domains` attaches hostnames',
  },
  {
    path: '/zones',
    what: 'zones and routes',
    why: 'there are none here; `cellar domains` attaches hostnames',
  },
  { path: '/accounts/*/workers/dispatch', what: 'Workers for Platforms', why: NO_SUCH },
  {
    path: '/accounts/*/workflows/*',
    what: 'deleting Workflows, and ending all of their instances at once',
    why: 'a Workflow goes with the deploy that binds it no more; instances are ended and deleted one by one',
  },
  { path: '/accounts/*/containers', what: 'Containers', why: NO_SUCH },
  { path: '/accounts/*/cloudchamber', what: 'Containers', why: NO_SUCH },
  {
    path: '/accounts/*/pages',
    what: 'Pages',
    why: 'a static site is an app: deploy it with `assets`, or push it',
  },
  { path: '/accounts/*/ai', what: 'Workers AI', why: NO_SUCH },
  { path: '/accounts/*/vectorize', what: 'Vectorize', why: NO_SUCH },
  { path: '/accounts/*/hyperdrive', what: 'Hyperdrive', why: NO_SUCH },
  { path: '/accounts/*/pipelines', what: 'Pipelines', why: NO_SUCH },
  {
    path: '/accounts/*/secrets_store',
    what: 'the Secrets Store',
    why: 'secrets belong to an app: `wrangler secret`',
  },
  { path: '/accounts/*/mtls_certificates', what: 'mTLS certificates', why: NO_SUCH },
  { path: '/accounts/*/d1/database/*/time_travel', what: 'Time Travel', why: 'snapshots take its place' },
  { path: '/accounts/*/d1/database/*', what: 'deleting databases', why: OWN },
  { path: '/accounts/*/storage/kv/namespaces/*', what: 'renaming and deleting namespaces', why: OWN },
  {
    path: '/accounts/*/r2/buckets/*',
    what: 'deleting buckets, and their CORS, lifecycle, locks, domains and sippy',
    why: OWN,
  },
  { path: '/accounts/*/queues/*', what: 'pausing, purging, pulling from and deleting queues', why: OWN },
  { path: '/accounts/*/event_notifications', what: 'event notifications of buckets', why: NO_SUCH },
  {
    path: '/accounts/*/workers/workers/*',
    what: 'secrets of one version',
    why: "secrets are the app's: `wrangler secret`",
  },
  {
    path: '/accounts/*/workers/scripts/*/versions',
    what: 'secrets of one version',
    why: "secrets are the app's: `wrangler secret`",
  },
  {
    path: '/accounts/*/workers/scripts/*',
    what: 'downloading scripts, and their usage model',
    why: 'the source is in the repository, or with whoever uploaded it',
  },
  { path: '/graphql', what: 'analytics', why: "`cellar stats` and the control UI show an app's metrics" },
];

/** Why a path is not answered; `null` for a path that is not in the list. */
export function whyUnanswered(path: string): string | null {
  const words = path.split('/');
  const found = unanswered.find(({ path }) =>
    path.split('/').every((word, at) => word === '*' || word === words[at]),
  );
  return found ? `${found.what}: ${found.why}` : null;
}
