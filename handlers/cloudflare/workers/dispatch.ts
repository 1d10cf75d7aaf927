// Calls about dispatch namespaces (Workers for Platforms). A script of a namespace is an app without an address. Some calls
// about Workers exist for scripts too, at other paths.
import * as z from 'zod';
import type { AppRow } from '../../../sqlite/control/apps/apps.ts';
import {
  addDispatchNamespace,
  type DispatchNamespace,
  deleteDispatchNamespace,
  findDispatchNamespace,
  listDispatchNamespaces,
  renameDispatchNamespace,
} from '../../../sqlite/control/apps/dispatch.ts';
import { keyOf, onlyAppOf } from '../../access.ts';
import type { Context } from '../../context.ts';
import { DISPATCH_NAME, DISPATCH_NAME_RULE, scriptKey, slugOfScript } from '../../contract/apps/slug.ts';
import { newId, uuidOf } from '../../contract/id.ts';
import { operationsByName } from '../../contract/index.ts';
import { requireKeyFor } from '../../key-scopes.ts';
import { Problem } from '../../problem.ts';
import { hashOf } from '../../secrets.ts';
import { appCall, type Call, type CallContext, call, Page, run, wholeList } from '../call.ts';
import { CloudflareError, CODES } from '../codes.ts';
import { assetCalls } from './assets.ts';
import { bindingsOf, scriptCalls } from './scripts.ts';
import { secretCalls } from './secrets.ts';

const NAMESPACES = '/accounts/:account/workers/dispatch/namespaces';
const NAMESPACE = `${NAMESPACES}/:dispatch`;
const SCRIPT = `${NAMESPACE}/scripts/:script`;
const WORKER = '/accounts/:account/workers/scripts/:script';
/** Maximum namespaces of an account. */
const NAMESPACES_MAX = 100;
/** Paths of the calls about Workers that exist for scripts of a namespace too. */
const SHARED = [
  ...['', '/settings', '/script-settings', '/assets-upload-session'],
  ...['/secrets', '/secrets-bulk', '/secrets/:secret'],
].map((rest) => WORKER + rest);

const Named = z.object({ name: z.string().regex(DISPATCH_NAME, DISPATCH_NAME_RULE) });

const shared = [...scriptCalls, ...assetCalls, ...secretCalls]
  .filter(({ path }) => SHARED.includes(path))
  .map((each): Call => ({ ...each, path: each.path.replace(WORKER, SCRIPT) }));

export const dispatchCalls = [
  call({
    method: 'GET',
    path: NAMESPACES,
    as: 'apps.list',
    answer: async (context) => {
      requireAllApps(context);
      const found = await listDispatchNamespaces(context.reads, context.account);
      return wholeList(found.map((each) => shown(each)));
    },
  }),
  call({
    method: 'POST',
    path: NAMESPACES,
    as: 'apps.create',
    body: Named,
    answer: async (context, { name }) => {
      const { db, account: owner, at } = context;
      context.note({ dispatch: name });
      const made = await addDispatchNamespace(db, { id: newId(), owner, name, at, limit: NAMESPACES_MAX });
      if (made !== null) return shown(made);
      throw new CloudflareError(
        409,
        CODES.BAD_REQUEST,
        `The account has ${NAMESPACES_MAX} dispatch namespaces, the maximum: delete one first.`,
      );
    },
  }),
  call({
    method: 'GET',
    path: NAMESPACE,
    as: 'apps.list',
    answer: async (context) => {
      requireAllApps(context);
      return shown(await requireDispatchNamespace(context, context.words.dispatch!));
    },
  }),
  call({
    method: 'PUT',
    path: NAMESPACE,
    as: 'apps.create',
    body: Named,
    answer: async (context, { name }) => {
      const { db, account, words } = context;
      context.note({ to: name });
      const before = await requireDispatchNamespace(context, words.dispatch!);
      if (before.name === name) return shown(before);
      if (!(await renameDispatchNamespace(db, account, before.name, name))) {
        if ((await findDispatchNamespace(db, account, name)) === null) throw notEmpty(before, 'renamed');
        const message = `The account has a dispatch namespace ${name} already.`;
        throw new CloudflareError(409, CODES.BAD_REQUEST, message);
      }
      return shown({ ...before, name });
    },
  }),
  call({
    method: 'DELETE',
    path: NAMESPACE,
    as: 'apps.create',
    answer: async (context) => {
      requireKeyFor(keyOf(context.actor), operationsByName.get('apps.delete')!, null);
      const before = await requireDispatchNamespace(context, context.words.dispatch!);
      if (!(await deleteDispatchNamespace(context.db, context.account, before.name)))
        throw notEmpty(before, 'deleted');
      return null;
    },
  }),
  call({
    method: 'GET',
    path: `${NAMESPACE}/scripts`,
    as: 'apps.list',
    answer: async (context) => {
      requireAllApps(context);
      const { name } = await requireDispatchNamespace(context, context.words.dispatch!);
      const asked = { owner: context.account, dispatch_namespace: name, limit: 100 };
      const cursor = context.url.searchParams.get('cursor') ?? undefined;
      const { items, next_cursor } = await run(context, 'apps.list', { ...asked, cursor });
      const scripts = items.map(({ id, dispatch, created_at, deployed_at }) => ({
        id: dispatch!.script,
        tag: id,
        created_on: created_at,
        modified_on: deployed_at ?? created_at,
      }));
      return new Page(scripts, { count: scripts.length, per_page: 100, cursor: next_cursor ?? '' });
    },
  }),
  appCall({
    method: 'GET',
    path: SCRIPT,
    as: 'apps.get',
    answer: async (context, _body, app) => ({
      dispatch_namespace: app.dispatch_namespace,
      created_on: app.created_at,
      modified_on: app.deployed_at ?? app.created_at,
      script: {
        id: app.dispatch_script,
        tag: app.id,
        etag: app.live_deploy_id,
        tags: [],
        created_on: app.created_at,
        modified_on: app.deployed_at ?? app.created_at,
        last_deployed_from: 'wrangler',
        migration_tag: (await releaseOf(context, app))?.migration_tag ?? undefined,
      },
    }),
  }),
  appCall({
    method: 'DELETE',
    path: SCRIPT,
    as: 'apps.delete',
    answer: (context, _body, app) => run(context, 'apps.delete', { id: app.id }),
  }),
  appCall({
    method: 'GET',
    path: `${SCRIPT}/bindings`,
    as: 'env.list',
    answer: async (context, _body, app) => {
      const release = await releaseOf(context, app);
      return release === null ? [] : bindingsOf(release, app.dispatch_script!);
    },
  }),
  ...shared,
];

/** Returns the slug of a script's app. @throws {CloudflareError} for an invalid name, or when there is no such namespace */
export async function slugInNamespace(
  context: Context,
  account: string,
  namespace: string,
  script: string,
): Promise<string> {
  await requireDispatchNamespace({ ...context, account }, namespace);
  if (!DISPATCH_NAME.test(script))
    throw new CloudflareError(400, CODES.BAD_REQUEST, `The name of the script ${DISPATCH_NAME_RULE}.`);
  return slugOfScript(await hashOf(scriptKey(account, namespace, script)));
}

async function requireDispatchNamespace(
  { reads, account }: Pick<CallContext, 'reads' | 'account'>,
  name: string,
): Promise<DispatchNamespace> {
  const found = await findDispatchNamespace(reads, account, name);
  if (found !== null) return found;
  const message = `There is no dispatch namespace ${name}: \`wrangler dispatch-namespace create ${name}\` makes it.`;
  throw new CloudflareError(404, CODES.DISPATCH_NAMESPACE_NOT_FOUND, message);
}

/** Refuses an API key for one app, because a namespace belongs to the whole account. @throws {Problem} `forbidden` */
function requireAllApps({ actor }: Context): void {
  if (onlyAppOf(actor) !== null)
    throw new Problem(
      'forbidden',
      'Dispatch namespaces need an API key for all apps; this one is for one app.',
    );
}

function releaseOf({ host }: CallContext, { id }: AppRow) {
  return host.call('GET /apps/:id/release', { id });
}

function notEmpty({ name, scripts }: DispatchNamespace, what: string): CloudflareError {
  return new CloudflareError(
    409,
    CODES.BAD_REQUEST,
    `The dispatch namespace ${name} has ${scripts} scripts, and only one without scripts can be ${what}: delete them first.`,
  );
}

function shown({ id, name, created_at, scripts }: DispatchNamespace) {
  const by = { created_on: created_at, created_by: '', modified_on: created_at, modified_by: '' };
  const of = { script_count: scripts, trusted_workers: false };
  return { namespace_id: uuidOf(id), namespace_name: name, ...by, ...of };
}
