// Calls about Workers. Each Worker is an app.
import * as z from 'zod';
import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import { audited } from '../../audit.ts';
import { scriptKey, slugOfScript } from '../../contract/apps/slug.ts';
import type { DescribedRelease } from '../../contract/host/host-releases.ts';
import { uuidOf } from '../../contract/id.ts';
import { hashOf } from '../../secrets.ts';
import { createAppFor } from '../../services/apps/apps.ts';
import { appCall, type CallContext, call, newAppCall, run, wholeList } from '../call.ts';
import { authorOf, deployUpload, uploadVersion } from './deploying.ts';
import { homeOfUpload } from './upload-home.ts';

const SCRIPT = '/accounts/:account/workers/scripts/:script';
const ENVIRONMENT = 'production';

export const scriptCalls = [
  call({
    method: 'GET',
    path: '/accounts/:account/workers/scripts',
    as: 'apps.list',
    answer: async (context) => {
      const apps = await allApps(context);
      return Promise.all(
        apps.map(async ({ id, slug, created_at, deployed_at }) => ({
          id: slug,
          tag: id,
          created_on: created_at,
          modified_on: deployed_at ?? created_at,
          migration_tag:
            (await context.host.call('GET /apps/:id/release', { id }))?.migration_tag ?? undefined,
        })),
      );
    },
  }),
  call({
    method: 'GET',
    path: '/accounts/:account/workers/durable_objects/namespaces',
    as: 'apps.list',
    // Wrangler searches this list for containers that it has deployed. The list is empty, because in Cellar containers belong
    // to a release.
    answer: async () => wholeList([]),
  }),
  appCall({
    method: 'GET',
    path: '/accounts/:account/workers/services/:script',
    as: 'apps.get',
    answer: async ({ host }, _body, app) => {
      const migration_tag =
        (await host.call('GET /apps/:id/release', { id: app.id }))?.migration_tag ?? undefined;
      return {
        id: app.slug,
        default_environment: {
          environment: ENVIRONMENT,
          created_on: app.created_at,
          modified_on: app.deployed_at ?? app.created_at,
          script: { id: app.slug, tag: app.id, tags: [], last_deployed_from: 'wrangler', migration_tag },
        },
        environments: [],
      };
    },
  }),
  appCall({
    method: 'DELETE',
    path: '/accounts/:account/workers/services/:script',
    as: 'apps.delete',
    answer: (context, _body, app) => run(context, 'apps.delete', { id: app.id }),
  }),
  newAppCall({
    method: 'PUT',
    path: SCRIPT,
    answer: async (context, _body, app) => {
      const author = await authorOf(context);
      const uploaded = await uploadVersion(context, app, author);
      const { id } = app ?? (await createApp(context));
      const deploy = await deployUpload(context, id, uploaded, author);
      return {
        id: context.words.script,
        etag: deploy.id,
        deployment_id: uuidOf(deploy.id),
        startup_time_ms: deploy.startMs,
      };
    },
  }),
  appCall({
    method: 'GET',
    path: `${SCRIPT}/settings`,
    as: 'env.list',
    answer: async ({ host }, _body, app) =>
      settingsOf(await host.call('GET /apps/:id/release', { id: app.id }), app.slug),
  }),
  appCall({
    method: 'PATCH',
    path: `${SCRIPT}/script-settings`,
    as: 'deploys.create',
    body: z.looseObject({}),
    // These settings have no effect. Cellar always stores logs and metrics, and an upload itself names its Tail Workers.
    answer: async (_context, body) => body,
  }),
  call({
    method: 'GET',
    path: '/accounts/:account/workers/subdomain',
    as: 'apps.list',
    // Wrangler appends `.workers.dev` to this subdomain, but shows the result only for a Worker without another address.
    answer: async ({ env }) => ({ subdomain: env.BASE_DOMAIN }),
  }),
  appCall({
    method: 'GET',
    path: '/accounts/:account/workers/workers/:script',
    as: 'apps.get',
    answer: async ({ env }, _body, app) => ({
      id: app.id,
      name: app.slug,
      subdomain: { ...subdomainOf(app, env.PUBLIC_APP_URL), url: urlOf(app, env.PUBLIC_APP_URL) },
    }),
  }),
  appCall({
    method: 'GET',
    path: `${SCRIPT}/subdomain`,
    as: 'apps.get',
    answer: async ({ env }, _body, app) => subdomainOf(app, env.PUBLIC_APP_URL),
  }),
  appCall({
    method: 'POST',
    path: `${SCRIPT}/subdomain`,
    as: 'deploys.create',
    body: z.looseObject({}),
    // The answer is always that the address is enabled, because an app cannot be removed from its address.
    answer: async ({ env }, _body, app) => subdomainOf(app, env.PUBLIC_APP_URL),
  }),
];

/** Returns the suffix of the addresses of previews, in Cloudflare's format. Wrangler puts the preview's name before it. */
function subdomainOf(app: AppRow, url: string) {
  const { host } = new URL(url.replace('{slug}', `name--${app.slug}`));
  return { enabled: true, previews_enabled: true, preview_url_suffix: host.slice('name'.length) };
}

/** Returns all apps of the account. If the caller is an account, also other apps on which it has a role. */
export async function allApps(
  context: CallContext,
): Promise<{ id: string; slug: string; owner: string; created_at: string; deployed_at: string | null }[]> {
  // Without an owner, an account's list also has apps of other accounts on which it has a role.
  const owner = context.actor.kind === 'runner' ? context.account : undefined;
  const apps = [];
  let cursor: string | undefined;
  do {
    const page = await run(context, 'apps.list', { owner, limit: 200, cursor });
    apps.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor !== undefined);
  return apps;
}

export function urlOf({ slug }: AppRow, template: string): string {
  return template.replace('{slug}', slug);
}

/** Returns a release's settings and bindings in Cloudflare's format. @param slug the app's slug */
export function settingsOf(release: DescribedRelease | null, slug: string) {
  return {
    bindings: release === null ? [] : bindingsOf(release, slug),
    compatibility_date: release?.compatibility_date ?? null,
    compatibility_flags: release?.compatibility_flags ?? [],
    usage_model: 'standard',
    migration_tag: release?.migration_tag ?? undefined,
    tail_consumers: (release?.tail_consumers ?? []).map((service) => ({ service })),
    tags: [],
  };
}

export function bindingsOf(release: DescribedRelease, slug: string) {
  const {
    vars,
    assets,
    durable_objects,
    databases,
    namespaces,
    buckets,
    vector_indexes,
    producers,
    workflows,
    rate_limits,
    dispatch_namespaces,
    store_secrets,
    mtls_certificates,
    services,
    outward,
    version_metadata,
    worker_loaders,
  } = release;
  return [
    ...Object.entries(vars).map(([name, value]) =>
      typeof value === 'string'
        ? { type: 'plain_text', name, text: value }
        : { type: 'json', name, json: value },
    ),
    ...(assets === null ? [] : [{ type: 'assets', name: assets }]),
    ...durable_objects.map(({ binding: name, ...more }) => ({
      type: 'durable_object_namespace',
      name,
      ...more,
    })),
    ...databases.map(({ binding: name, id }) => ({ type: 'd1', name, id })),
    ...namespaces.map(({ binding: name, id }) => ({ type: 'kv_namespace', name, namespace_id: id })),
    ...buckets.map(({ binding: name, id }) => ({ type: 'r2_bucket', name, bucket_name: id })),
    ...vector_indexes.map(({ binding: name, id }) => ({ type: 'vectorize', name, index_name: id })),
    ...producers.map(({ binding: name, queue }) => ({ type: 'queue', name, queue_name: queue })),
    ...workflows.map(({ binding: name, name: workflow_name, class_name }) => ({
      type: 'workflow',
      name,
      workflow_name,
      class_name,
    })),
    ...rate_limits.map(({ binding: name, namespace: namespace_id, ...simple }) => ({
      type: 'ratelimit',
      name,
      namespace_id,
      simple,
    })),
    ...services.map(({ binding: name, service, ...more }) => ({
      type: 'service',
      name,
      service: service ?? slug,
      ...more,
    })),
    ...dispatch_namespaces.map(({ binding: name, namespace }) => ({
      type: 'dispatch_namespace',
      name,
      namespace,
    })),
    ...store_secrets.map(({ binding: name, store: store_id, secret: secret_name }) => ({
      type: 'secrets_store_secret',
      name,
      store_id,
      secret_name,
    })),
    ...mtls_certificates.map(({ binding: name, certificate: certificate_id }) => ({
      type: 'mtls_certificate',
      name,
      certificate_id,
    })),
    ...outward.map(({ binding: name, ...rest }) => ({ name, ...rest })),
    ...(version_metadata === null ? [] : [{ type: 'version_metadata', name: version_metadata }]),
    ...worker_loaders.map((name) => ({ type: 'worker_loader', name })),
  ];
}

/** Creates the app, or the script of a dispatch namespace, on the host that stores the upload. */
async function createApp(context: CallContext): Promise<{ id: string }> {
  const newHome = await homeOfUpload(context, null);
  const { account, words } = context;
  const script = words.script!;
  if (words.dispatch === undefined)
    return run({ ...context, newHome }, 'apps.create', { slug: script, owner: account });
  const slug = slugOfScript(await hashOf(scriptKey(account, words.dispatch, script)));
  const dispatch = { namespace: words.dispatch, script };
  const details = { dispatch: words.dispatch, script };
  const target = { operation: 'apps.create', app: { id: null, slug }, details };
  const made = await audited(context, context, target, () =>
    createAppFor({ ...context, newHome }, { slug, owner: account, dispatch }),
  );
  context.setApp(made);
  return made;
}
