import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { idPattern } from '../id.ts';
import { operation } from '../operation.ts';
import { deployStatus } from './deploys.ts';
import {
  isDispatched,
  reservedSlugs,
  SINGLE_HYPHENS_RULE,
  SLUG_RULE,
  singleHyphens,
  slugPattern,
} from './slug.ts';

/** An app's slug. */
export const slug = z
  .string()
  .regex(slugPattern, SLUG_RULE)
  .regex(singleHyphens, SINGLE_HYPHENS_RULE)
  .refine((value) => !reservedSlugs.includes(value) && !isDispatched(value), { error: 'is reserved' })
  .refine((value) => !idPattern.test(value), { error: 'must not look like the id of an app' });

export const desiredState = z.enum(['running', 'stopped']);

/** Where an app keeps its data: on the machine or in the host's bucket. */
export const appStorage = z.enum(['local', 'bucket']);

/** How many processes an app runs. */
export const replicas = z.int().min(1).max(16);

/** The status of an app. `STATUS` in `sqlite/control/apps/apps.ts` computes it. */
export const appStatus = z.enum([
  'created',
  'deploying',
  'starting',
  'running',
  'sleeping',
  'stopped',
  'crashed',
]);

/** The host that runs an app. After the host was removed, `name` is its id. */
export const AppHome = z.strictObject({ id: z.string(), name: z.string() });

export const App = z.strictObject({
  id,
  slug: z.string(),
  /** The id of the account that owns the app. */
  owner: id,
  desired_state: desiredState,
  storage: appStorage,
  /** The host that runs the app; null in a Cellar of one host. */
  home: AppHome.nullable(),
  replicas: z.int(),
  /** The app's dispatch namespace and script name; null for an app outside of dispatch namespaces. */
  dispatch: z.strictObject({ namespace: z.string(), script: z.string() }).nullable(),
  /** Whether visitors get the maintenance page of the app. */
  maintenance: z.boolean(),
  status: appStatus,
  asleep_since: time.nullable(),
  woke_at: time.nullable(),
  url: z.string(),
  git_url: z.string(),
  live_deploy_id: id.nullable(),
  deployed_at: time.nullable(),
  last_error: z.string().nullable(),
  warnings: z.array(z.string()),
  created_at: time,
});
export type App = z.output<typeof App>;

/** How long a deleted app can be undeleted, in ms. */
export const UNDELETABLE_MS = 7 * 24 * 3_600_000;

/** An app that can be undeleted. */
export const DeletedApp = z.strictObject({
  id,
  /** The slug that it had before its deletion. */
  slug: z.string(),
  owner: id,
  storage: appStorage,
  deleted_at: time,
  /** When its data is removed for good. */
  removed_at: time,
});

/** Maximum apps of one overview. */
export const OVERVIEW_APPS = 500;

/** An app's figures of the last 24 hours and now. Durations in ms. */
export const AppFigures = z.strictObject({
  /** Number of requests in each hour, the current hour last. */
  requests: z.array(z.int()).length(24),
  /** Requests that were answered with 5xx, except by the maintenance page. */
  errors: z.int(),
  duration_ms_p99: z.number().nullable(),
  /** Requests in the last complete minute. */
  requests_per_minute: z.int(),
  /** Peak memory of the last minutes; null without a process. */
  memory_bytes: z.int().nullable(),
  /** Number of processes that serve. */
  processes: z.int(),
  /** Number of grouped errors with the status `open`. */
  open_errors: z.int(),
});
export type AppFigures = z.output<typeof AppFigures>;

export const apps = [
  operation({
    name: 'apps.list',
    oneApp: true,
    summary: 'Lists apps, newest first',
    method: 'GET',
    path: '/v1/apps',
    needs: 'account',
    /**
     * `host`: the id of the host that runs the apps. Scripts of dispatch namespaces are listed only with `host` or
     * `dispatch_namespace`.
     */
    input: z.strictObject({
      owner: reference.optional(),
      host: reference.optional(),
      dispatch_namespace: reference.optional(),
      ...page,
    }),
    output: listOf(App),
  }),
  operation({
    name: 'apps.overview',
    oneApp: true,
    summary: 'Lists the newest 500 apps, each with its figures of the last 24 hours and its last deploy',
    method: 'GET',
    needs: 'account',
    input: z.strictObject({}),
    output: z.strictObject({
      items: z.array(
        z.strictObject({
          ...App.shape,
          /** The app's figures; null while the host does not answer. */
          figures: AppFigures.nullable(),
          last_deploy: z
            .strictObject({ id, message: z.string(), author: z.string(), status: deployStatus, at: time })
            .nullable(),
        }),
      ),
      /** Whether there are more apps. */
      more: z.boolean(),
      /** Used memory of the machine and its limit; null while the host does not answer. */
      memory: z.strictObject({ used_bytes: z.int(), limit_bytes: z.int() }).nullable(),
    }),
  }),
  operation({
    name: 'apps.create',
    scope: 'deploy',
    summary: 'Makes an app with its empty repository',
    method: 'POST',
    path: '/v1/apps',
    needs: 'account',
    input: z.strictObject({ slug, owner: reference.optional(), storage: appStorage.optional() }),
    output: App,
    status: 201,
    errors: ['quota_exceeded', 'account_not_found', 'slug_taken', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'apps.get',
    summary: 'Reads one app',
    method: 'GET',
    path: '/v1/apps/:id',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: App,
  }),
  operation({
    name: 'apps.get_by_slug',
    summary: 'Reads one app by its slug',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ slug: reference }),
    output: App,
  }),
  operation({
    name: 'apps.figures',
    summary: 'Reads the figures of an app for the last 24 hours, and whether its process runs now',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: AppFigures,
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'apps.templates',
    oneApp: true,
    summary: 'Lists the templates for the code of a new app',
    method: 'GET',
    needs: 'account',
    input: z.strictObject({}),
    output: z.strictObject({
      items: z.array(z.strictObject({ name: z.string(), title: z.string(), description: z.string() })),
    }),
  }),
  operation({
    name: 'apps.update',
    summary: 'Starts or stops an app, or sets how many processes it runs; starting also wakes a sleeping app',
    method: 'PATCH',
    path: '/v1/apps/:id',
    needs: 'admin',
    input: z.strictObject({
      id: reference,
      desired_state: desiredState.optional(),
      replicas: replicas.optional(),
    }),
    output: App,
    errors: ['transition_conflict', 'host_unavailable', 'app_unavailable'],
  }),
  operation({
    name: 'apps.rename',
    summary: 'Renames an app: its address and its git remote change, its data stays',
    method: 'POST',
    path: '/v1/apps/:id/rename',
    needs: 'admin',
    input: z.strictObject({ id: reference, slug }),
    output: App,
    errors: ['slug_taken', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'apps.sleep',
    summary: 'Puts a running app to sleep; the next request wakes it',
    method: 'POST',
    path: '/v1/apps/:id/sleep',
    needs: 'push',
    input: z.strictObject({ id: reference }),
    output: App,
    errors: ['transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'apps.delete',
    summary: 'Deletes an app; its data goes to the trash for 7 days',
    method: 'DELETE',
    path: '/v1/apps/:id',
    needs: 'admin',
    input: z.strictObject({ id: reference }),
    output: nothing,
    errors: ['transition_conflict'],
  }),
  operation({
    name: 'apps.list_deleted',
    summary: 'Lists deleted apps that the caller can undelete, the last deleted first',
    method: 'GET',
    path: '/v1/deleted-apps',
    needs: 'account',
    input: z.strictObject(page),
    output: listOf(DeletedApp),
  }),
  operation({
    name: 'apps.undelete',
    summary:
      'Brings back an app that was deleted in the last 7 days, with its data, code, secrets and free domains',
    method: 'POST',
    path: '/v1/deleted-apps/:app/undelete',
    needs: 'account',
    /** `app`: an id or a slug. A slug means the app with that slug that was deleted last. */
    input: z.strictObject({ app: reference, slug: slug.optional() }),
    output: App,
    errors: ['app_not_found', 'slug_taken', 'quota_exceeded', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
