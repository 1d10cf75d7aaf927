// Deploys, and the git remote to push to.
import * as z from 'zod';
import { gitName, id, listOf, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { lastEventId } from '../telemetry/events.ts';

/**
 * `live`: serves now. `replaced`: another deploy serves now. `superseded`: a newer push came first. `cancelled`: the deploy's
 * `error` says who cancelled it.
 */
export const deployStatus = z.enum([
  'queued',
  'building',
  'live',
  'replaced',
  'failed',
  'superseded',
  'cancelled',
]);

export const Deploy = z.strictObject({
  id,
  app_id: id,
  /** The commit. For an upload, which has no commit, `sha` and `ref` are empty. */
  sha: z.string(),
  ref: z.string(),
  message: z.string(),
  author: z.string(),
  /** Who requested a rollback or a redeploy; null for other deploys. */
  requested_by: z.string().nullable(),
  /** A rollback serves the version of an earlier deploy. */
  version: z.strictObject({ id, tag: z.string(), message: z.string(), created_at: time }),
  trigger: z.enum(['push', 'rollback', 'commit', 'redeploy', 'import', 'upload', 'promote']),
  status: deployStatus,
  /** Whether the release of the deploy is still stored. */
  can_roll_back: z.boolean(),
  steps: z.array(
    z.strictObject({
      name: z.enum([
        'checkout',
        'install',
        'build',
        'bundle',
        'release',
        'cache',
        'store',
        'release_command',
        'start',
      ]),
      status: z.enum(['running', 'done', 'failed', 'skipped']),
      duration_ms: z.number().nullable(),
    }),
  ),
  error: z.string().nullable(),
  started_at: time.nullable(),
  finished_at: time.nullable(),
});
export type Deploy = z.output<typeof Deploy>;

/** New lines of a deploy's log. The server-sent event has the name `log`. */
export const DeployLines = z.strictObject({ deploy_id: id, lines: z.array(z.string()) });
export type DeployLines = z.output<typeof DeployLines>;

export const deploys = [
  operation({
    name: 'deploys.list',
    summary: "Lists an app's deploys, newest first",
    method: 'GET',
    path: '/v1/apps/:id/deploys',
    needs: 'view',
    input: z.strictObject({ id: reference, status: deployStatus.optional(), ...page }),
    output: listOf(Deploy),
  }),
  operation({
    name: 'deploys.get',
    summary: 'Reads one deploy',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference, deploy_id: reference }),
    output: Deploy,
    errors: ['deploy_not_found'],
  }),
  operation({
    name: 'deploys.log',
    summary: 'Reads the log of a deploy, up to now',
    method: 'GET',
    path: '/v1/apps/:id/deploys/:deploy_id/log',
    needs: 'view',
    input: z.strictObject({ id: reference, deploy_id: reference }),
    output: z.strictObject({ deploy_id: id, status: deployStatus, log: z.string() }),
    errors: ['deploy_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'deploys.stream',
    summary: 'Streams changed deploys, each with all its fields, and new lines of their logs',
    method: 'GET',
    path: '/v1/apps/:id/deploys/stream',
    needs: 'view',
    input: z.strictObject({ id: reference, last_event_id: lastEventId }),
    output: z.union([Deploy, DeployLines]),
    kind: 'stream',
    errors: ['rate_limited'],
  }),
  operation({
    name: 'deploys.rollback',
    summary: 'Makes an earlier release live again, without a build; wakes a sleeping app first',
    method: 'POST',
    path: '/v1/apps/:id/rollback',
    needs: 'push',
    input: z.strictObject({ id: reference, deploy_id: reference }),
    output: Deploy,
    status: 202,
    errors: ['deploy_not_found', 'release_unavailable', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'deploys.create',
    summary:
      'Builds and deploys the tip of main again, a tag, a branch or a commit, or the commit of an earlier deploy; wakes a sleeping app first',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, deploy_id: reference.optional(), ref: gitName.optional() }),
    output: Deploy,
    status: 202,
    errors: [
      'deploy_not_found',
      'ref_not_found',
      'transition_conflict',
      'import_failed',
      'commit_conflict',
      'rate_limited',
      'host_unavailable',
    ],
  }),
  operation({
    name: 'deploys.cancel',
    summary: 'Cancels a deploy that is queued or building; the live release does not change',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, deploy_id: reference }),
    output: Deploy,
    errors: ['deploy_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;

export const git = [
  operation({
    name: 'git.remote',
    summary: 'Returns the git address of an app, and the commands to clone it and to push to it',
    method: 'POST',
    audited: false,
    path: '/v1/apps/:id/git-remote',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: z.strictObject({
      url: z.string(),
      /** `url` with the placeholder `<API_KEY>`, to be replaced by an API key. */
      url_with_key: z.string(),
      username: z.literal('git'),
      branch: z.literal('main'),
      /** A command to paste that clones the repository, with the placeholder `<API_KEY>`. */
      clone: z.string(),
      /** A command to paste that pushes the current commit to main, with the placeholder `<API_KEY>`. */
      push: z.string(),
    }),
  }),
] as const;
