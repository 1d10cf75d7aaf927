// Calls about versions and deployments. A version is a release of one of our deploys, or an upload that is not deployed yet.
import * as z from 'zod';
import type { Deploy } from '../../contract/apps/deploys.ts';
import { MESSAGE_LENGTH } from '../../contract/apps/versions.ts';
import type { HostSplit } from '../../contract/host/host-calls.ts';
import type { UploadedVersion } from '../../contract/host/host-releases.ts';
import { uuidOf } from '../../contract/id.ts';
import { Problem } from '../../problem.ts';
import { ended, kept, serveAlone, servedDeploys, serving } from '../../services/apps/versions.ts';
import { appCall, type CallContext, run } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { idOf } from '../names.ts';
import { authorOf, changeSecrets, uploadVersion } from './deploying.ts';
import { bindingsOf } from './scripts.ts';
import { secretsOf } from './secrets.ts';

const SCRIPT = '/accounts/:account/workers/scripts/:script';
/** Maximum deployments in a list, as many as Wrangler shows. */
const DEPLOYMENTS_SHOWN = 10;

/** Cloudflare's names of our deploy triggers. All others are shown as `upload`. */
const TRIGGERS: Partial<Record<Deploy['trigger'], string>> = { rollback: 'rollback', promote: 'promotion' };

const Deployment = z.object({
  versions: z.array(z.object({ version_id: z.string(), percentage: z.number() })),
  annotations: z.object({ 'workers/message': z.string().optional() }).optional(),
});

const VERSIONS = 'GET /apps/:id/versions';

export const versionCalls = [
  appCall({
    method: 'GET',
    path: `${SCRIPT}/versions`,
    as: 'deploys.list',
    answer: async (context, _body, app) => {
      const waiting = (await context.host.call(VERSIONS, { id: app.id })).map(shownUpload);
      const served = kept(await servedDeploys(context, app.id)).map(shownVersion);
      // Wrangler sorts by number and shows the newest last.
      const items = [...waiting, ...served].sort((a, b) => (a.id < b.id ? 1 : -1));
      const bindings = await visibleSecretsOf(context, app.id);
      return {
        items: items.map(({ resources, ...item }, at) => ({
          ...item,
          number: items.length - at,
          resources: { ...resources, bindings },
        })),
      };
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
      const deploy = upload ? undefined : serving(await servedDeploys(context, app.id), id);
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
          bindings: [
            ...(release === null ? [] : bindingsOf(release, app.slug)),
            ...(await secretsOf(context, app.id)),
          ],
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
    answer: async (context, _body, app) => {
      const split = await context.host.call('GET /apps/:id/split', { id: app.id });
      const served = deploymentsOf(await servedDeploys(context, app.id)).map(shownDeployment);
      const shown = split === null ? served : [shownSplit(split), ...served];
      return { deployments: shown.slice(0, DEPLOYMENTS_SHOWN) };
    },
  }),
  appCall({
    method: 'POST',
    path: `${SCRIPT}/deployments`,
    as: 'split.set',
    body: Deployment,
    answer: async (context, { versions, annotations }, app) => {
      const [one, ...others] = versions;
      const message = annotations?.['workers/message'] ?? '';
      if (one?.percentage === 100 && others.length === 0) {
        const by = { author: await authorOf(context), message };
        const deploys = await servedDeploys(context, app.id);
        return { id: uuidOf(await serveAlone(context, app.id, deploys, idOf(one.version_id), by)), versions };
      }
      const asked = versions.map(({ version_id, percentage }) => ({ version: version_id, percentage }));
      await run(context, 'split.set', {
        id: app.id,
        versions: asked,
        message: message.slice(0, MESSAGE_LENGTH),
      });
      const split = await context.host.call('GET /apps/:id/split', { id: app.id });
      return { id: uuidOf(split?.id ?? app.id), versions };
    },
  }),
];

/** Returns an app's secrets, which all its versions have. The list is empty for a caller who may not list secrets. */
async function visibleSecretsOf(context: CallContext, id: string): ReturnType<typeof secretsOf> {
  try {
    return await secretsOf(context, id);
  } catch (error) {
    if (error instanceof Problem && error.code === 'forbidden') return [];
    throw error;
  }
}

/**
 * Returns the deploys that changed the version. Leaves out deploys that changed only settings such as crons, because
 * `wrangler rollback` goes back to the version of the second deployment in the list.
 * @param deploys newest first
 */
function deploymentsOf(deploys: Deploy[]): Deploy[] {
  return deploys.filter(({ version }, at) => version.id !== deploys[at + 1]?.version.id);
}

function shownUpload({ id, created_at, author, message, tag }: UploadedVersion) {
  return shown(id, created_at, author, { 'workers/message': message, 'workers/tag': tag });
}

/** Returns the version that a deploy serves, in Cloudflare's format. */
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

function shownSplit({ id, author, created_at, message, versions }: HostSplit) {
  return {
    id: uuidOf(id),
    source: 'wrangler',
    strategy: 'percentage',
    author_email: author,
    created_on: created_at,
    annotations: { 'workers/message': message, 'workers/triggered_by': 'deployment' },
    versions: versions.map(({ id, percentage }) => ({ version_id: uuidOf(id), percentage })),
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
