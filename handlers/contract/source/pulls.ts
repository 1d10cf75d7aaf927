// Pull requests of a connected repository (merge requests at GitLab), which get previews.
import * as z from 'zod';
import { reference, time } from '../fields.ts';
import { operation } from '../operation.ts';

/** Maximum pull requests that are shown. */
export const SHOWN_PULLS = 50;

/** `waiting`: for `source.approve`; `live`: the preview serves the commit; `closed`: the preview was removed. */
export const pullState = z.enum(['waiting', 'queued', 'building', 'live', 'failed', 'closed']);
export type PullState = z.output<typeof pullState>;

/** A pull request, as shown to people. */
export const Pull = z.strictObject({
  number: z.int().positive(),
  title: z.string(),
  author: z.string(),
  /** The newest commit. */
  sha: z.string(),
  state: pullState,
  /** The address of the preview; null when there is none. */
  url: z.string().nullable(),
  /** Why there is no preview, or why the preview could not be reported to the Git host; null without such a problem. */
  error: z.string().nullable(),
  updated_at: time,
});
export type Pull = z.output<typeof Pull>;

/** Git hosts by their API. Forgejo has Gitea's API. */
export type PullHost = 'github' | 'gitea' | 'gitlab';

/** A pull request, as a delivery reports it. */
export interface PullEvent {
  host: PullHost;
  /** The full name of the repository into which it is to be merged, such as `ada/shop`. */
  repository: string;
  number: number;
  title: string;
  /** The author as the Git host's API names people: a login; at GitLab the number of the account. */
  author: string;
  sha: string;
  is_open: boolean;
  /** Whether its commits are in the repository itself, where only its members can push. */
  is_inside: boolean;
  /** Whether the author belongs to the repository; null when the delivery does not say. */
  is_member: boolean | null;
  /** When the pull request was changed, in ms since 1970. Deliveries may come out of order. */
  changed_at: number;
}

export const approve = operation({
  name: 'source.approve',
  summary:
    'Approves a commit of a pull request from outside: a preview runs its code with the secrets of the app. Later commits need another approval',
  method: 'POST',
  path: '/v1/apps/:id/source/approve',
  needs: 'push',
  input: z.strictObject({
    id: reference,
    number: z.int().positive(),
    // Required, because the newest commit may be one that nobody has reviewed.
    sha: z.string().regex(/^[0-9a-f]{40}$/, 'must be a full commit hash'),
  }),
  output: Pull,
  errors: ['source_not_connected', 'pull_request_not_found', 'commit_conflict', 'host_unavailable'],
});
