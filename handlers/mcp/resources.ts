// Resources that agents can read by URI: logs, errors and deploys of apps.
import type { Context } from '../context.ts';
import { operationsByName } from '../contract/index.ts';
import { Problem } from '../problem.ts';
import { services } from '../services/index.ts';
import { run } from './run.ts';

/** Maximum apps in the list of resources. Resources of other apps can be read too. */
const LISTED_APPS = 50;
const TYPE = 'application/json';

const kinds = [
  { path: 'logs', operation: 'logs.list', title: 'The end of the log' },
  { path: 'errors', operation: 'errors.list', title: 'Open errors' },
  { path: 'deploys', operation: 'deploys.list', title: 'The last deploys' },
] as const;
const DEPLOY_LOG = 'deploys/{deploy_id}/log';

/** URI templates with the app as a parameter. */
export const resourceTemplates = [
  ...kinds.map(({ path, title }) => ({ path, title })),
  { path: DEPLOY_LOG, title: 'The log of a deploy' },
].map(({ path, title }) => ({
  name: path,
  title: `${title} of an app`,
  uriTemplate: `cellar://apps/{app}/${path}`,
  mimeType: TYPE,
}));

/** Returns the resources of the newest apps that the caller may see. */
export async function listResources(context: Context) {
  const { items } = await services['apps.list'](context, { limit: LISTED_APPS });
  return items.flatMap(({ slug }) =>
    kinds.map(({ path, title }) => ({
      name: `${slug} ${path}`,
      title: `${title} of ${slug}`,
      uri: `cellar://apps/${slug}/${path}`,
      mimeType: TYPE,
    })),
  );
}

/** Reads a resource. @throws {Problem} `route_not_found` for an unknown URI, and the errors of the read operation */
export async function readResource(context: Context, uri: string) {
  const [, id, path, deploy_id] =
    /^cellar:\/\/apps\/([\w-]+)\/(logs|errors|deploys)(?:\/([\w-]+)\/log)?$/.exec(uri) ?? [];
  const kind = kinds.find((each) => each.path === path);
  if (id === undefined || kind === undefined || (deploy_id !== undefined && path !== 'deploys')) {
    throw new Problem('route_not_found', `There is no resource ${uri}.`);
  }
  const isLog = deploy_id !== undefined;
  const operation = operationsByName.get(isLog ? 'deploys.log' : kind.operation)!;
  const { text } = await run(context, operation, isLog ? { id, deploy_id } : { id });
  return { uri, mimeType: TYPE, text };
}
