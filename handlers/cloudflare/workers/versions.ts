// Versions and deployments. A version is a deploy of ours, or an upload that is not deployed yet.
import * as z from 'zod';
import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import type { Context } from '../../context.ts';
import type { Deploy } from '../../contract/apps/deploys.ts';
import type { UploadedVersion } from '../../contract/host/host-releases.ts';
import { uuidOf } from '../../contract/id.ts';
import { appCall, type CallContext, run } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { idOf } from '../names.ts';
import { authorOf, changeSecrets, ended, rollBack, uploadVersion } from './deploying.ts';
import { bindingsOf } from './scripts.ts';

const SCRIPT = '/accounts/:account/workers/scripts/:script';
/** Most deploys that are searched for those that went live. */
const DEPLOYS_SEARCHED = 200;
/** Deployments that Wrangler shows. */
const DEPLOYMENTS_SHOWN = 10;

/** Cloudflare's names of deploy triggers other than an upload. */
const TRIGGERS: Partial<Record<Deploy['trigger'], string>> = { rollback: 'rollback', promote: 'promotion' };

const Deployment = z.object({
  versions: z
    .array(z.object({ version_id: z.string(), percentage: z.number() }))
    .length(1, 'one version has all of the traffic here: it cannot be split'),
  annotations: z.object({ 'workers/message': z.string().optional() }).optional(),
});

const VERSIONS = 'GET /apps/:id/versions';

export const versionCalls = [
  appCall({
    method: 'GET',
    path: `${SCRIPT}/versions`,
    as: 'deploys.list',
    answer: async ({ host, ...context }, _body, app) => {
      const waiting = (await host.call(VERSIONS, { id: app.id })).map(shownUpload);
      const served = kept(await servedDeploys({ host, ...context }, app)).map(shownVersion);
      // Wrangler sorts by number and shows the newest last.
      const items = [...waiting, ...served].sort((a, b) => (a.id < b.id ? 1 : -1));
      return { items: items.map((item, at) => ({ ...item, number: items.length - at })) };
    },
  }),
  appCall({
    method: 'GET',
    path: `${SCRIPT}/versions/:version`,
    as: 'env.list',
    answer: async (context, _body, app) => {
      const { host, words } = context;
      const id = idOf(words.version!);
      const upload = (await host.call(VERSIONS, { id: app.id })).find((version) => version.id === id);
      const deploy = upload ? undefined : serving(await servedDeploys(context, app), id);
      const shown = upload ? shownUpload(upload) : deploy && shownVersion(deploy);
      if (shown === undefined)
        throw new CloudflareError(404, CODES.VERSION_NOT_FOUND, `The app has no version ${words.version}.`);
      const release = await host.call(
        'GET /apps/:id/release',
        { id: app.id },
        { query: { deploy: deploy?.id ?? id } },
      );
      return {
        ...shown,
        resources: {
          ...shown.resources,
          bindings: release === null ? [] : bindingsOf(release, app.slug),
          script_runtime: {
            compatibility_date: release?.compatibility_date ?? undefined,
            compatibility_flags: release?.compatibility_flags,
            usage_model: 'standard',
          },
        },
      };
    },
  }),
  appCall({
    method: 'POST',
    path: `${SCRIPT}/versions`,
    as: 'deploys.create',
    answer: async (context, _body, app) => {
      const author = await authorOf(context);
      const { version, secrets } = await uploadVersion(context, app, author);
      await changeSecrets(context, app.id, secrets);
      const deployed = { id: app.id, deploy: version.id };
      const body = { owner: version.owner };
      const { startMs } = ended(
        await context.host.call('POST /apps/:id/versions/:deploy/preview', deployed, { body }),
      );
      const { metadata, ...shown } = shownUpload(version);
      return { ...shown, metadata: { ...metadata, has_preview: true }, startup_time_ms: startMs };
    },
  }),
  appCall({
    method: 'GET',
    path: `${SCRIPT}/deployments`,
    as: 'deploys.list',
    answer: async (context, _body, app) => ({
      deployments: (await servedDeploys(context, app)).slice(0, DEPLOYMENTS_SHOWN).map(shownDeployment),
    }),
  }),
  appCall({
    method: 'POST',
    path: `${SCRIPT}/deployments`,
    as: 'deploys.rollback',
    body: Deployment,
    answer: async (context, { versions, annotations }, app) => {
      const id = idOf(versions[0]!.version_id);
      const deploy = await deployVersion(context, app, id, annotations?.['workers/message']);
      return { id: uuidOf(deploy), versions };
    },
  }),
];

/** @returns the id of the deploy */
async function deployVersion(context: CallContext, app: AppRow, id: string, message = ''): Promise<string> {
  const waiting = (await context.host.call(VERSIONS, { id: app.id })).find((version) => version.id === id);
  if (waiting === undefined) {
    const deploy = serving(await servedDeploys(context, app), id);
    return (await rollBack(context, app.id, deploy?.id ?? id)).id;
  }
  const author = await authorOf(context);
  const body = { owner: waiting.owner, message: message || waiting.message, author };
  const words = { id: app.id, deploy: id };
  return ended(await context.host.call('POST /apps/:id/versions/:deploy', words, { body })).id;
}

/** Returns deploys that are or were live, newest first. */
async function servedDeploys(context: Context, app: AppRow): Promise<Deploy[]> {
  const { items } = await run(context, 'deploys.list', { id: app.id, limit: DEPLOYS_SEARCHED });
  return items.filter(({ status }) => status === 'live' || status === 'replaced');
}

function shownUpload({ id, created_at, author, message, tag }: UploadedVersion) {
  return shown(id, created_at, author, { 'workers/message': message, 'workers/tag': tag });
}

/** Returns the newest deploy of each version whose release is kept. */
function kept(deploys: Deploy[]): Deploy[] {
  const newest = new Map<string, Deploy>();
  for (const deploy of deploys)
    if (deploy.can_roll_back && !newest.has(deploy.version.id)) newest.set(deploy.version.id, deploy);
  return [...newest.values()];
}

/** Returns the deploy that has a version's release; undefined when the version never went live. */
function serving(deploys: Deploy[], version: string): Deploy | undefined {
  const of = deploys.filter((deploy) => deploy.version.id === version);
  return kept(of)[0] ?? of[0];
}

/** Formats the version that a deploy serves. */
function shownVersion({ author, version: { id, tag, message, created_at } }: Deploy) {
  return shown(id, created_at, author, {
    'workers/message': message,
    'workers/tag': tag,
    'workers/triggered_by': 'upload',
  });
}

function shown(id: string, at: string, author: string, annotations: Record<string, string>) {
  return {
    id: uuidOf(id),
    number: 0,
    annotations,
    metadata: {
      created_on: at,
      modified_on: at,
      source: 'wrangler',
      author_id: author,
      author_email: author,
      has_preview: false,
    },
    resources: { script: { etag: id } },
  };
}

function shownDeployment({ id, finished_at, author, requested_by, message, trigger, version }: Deploy) {
  return {
    id: uuidOf(id),
    source: 'wrangler',
    strategy: 'percentage',
    author_email: requested_by ?? author,
    created_on: finished_at ?? new Date(0).toISOString(),
    annotations: { 'workers/message': message, 'workers/triggered_by': TRIGGERS[trigger] ?? 'upload' },
    versions: [{ version_id: uuidOf(version.id), percentage: 100 }],
  };
}
