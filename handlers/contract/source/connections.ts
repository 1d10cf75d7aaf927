// Deploys from a repository on a Git host.
import * as z from 'zod';
import { id, gitName as name, nothing, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { approve, Pull, type PullEvent, SHOWN_PULLS } from './pulls.ts';
import { hasBrokenEscape, parseRemote } from './remote.ts';

/** Maximum deliveries of the webhook that are shown. */
const SHOWN_DELIVERIES = 20;

const url = z
  .string()
  .max(2000)
  .refine(
    (text) => parseRemote(text) !== null,
    'must be https://host/path, ssh://git@host/path or git@host:path, without a password',
  )
  .refine((text) => !hasBrokenEscape(text), 'has a broken percent escape: write the character % as %25');
const visible = /^[\x21-\x7e]+$/;
const secret = z.string().min(16).max(200).regex(visible, 'must be visible ASCII characters');
const token = z.string().min(1).max(500).regex(visible, 'must be visible ASCII characters');

const settings = {
  url,
  branch: name,
  /** `main`: each commit of the branch; `tags`: the tag with the highest version; `manual`: only calls of `source.sync`. */
  deploy_on: z.enum(['main', 'tags', 'manual']),
  /** Interval of the checks for new commits, in minutes. Null: no checks, because a webhook reports pushes. */
  poll_minutes: z.int().min(1).max(1440).nullable(),
};

/** `ignored`: the delivery is about something that is not deployed. `repeated`: the same delivery came before. */
export const deliveryOutcome = z.enum(['queued', 'ignored', 'repeated']);
export type DeliveryOutcome = z.output<typeof deliveryOutcome>;

const hostConnection = {
  ...settings,
  /** Whether a token is stored, with which the host reads the repository over HTTPS. The token itself is never shown. */
  has_token: z.boolean(),
  /** The public key of the connection's SSH key, for the Git host's list of deploy keys. */
  deploy_key: z.string(),
  /** The keys of the SSH server, stored at the first connection. */
  host_keys: z.array(z.strictObject({ type: z.string(), fingerprint: z.string() })),
  /** The last fetch; null before the first. `error`: null when it succeeded. */
  last_fetch: z
    .strictObject({ at: time, sha: z.string().nullable(), error: z.string().nullable() })
    .nullable(),
  /** Time of the next fetch; null when none is planned. */
  next_fetch_at: time.nullable(),
  /** The newest deliveries of the webhook, newest first. */
  deliveries: z
    .array(z.strictObject({ delivery: z.string(), event: z.string(), result: deliveryOutcome, at: time }))
    .max(SHOWN_DELIVERIES),
  /** Pull requests, the most recently changed first. */
  pulls: z.array(Pull).max(SHOWN_PULLS),
};

const HostConnection = z.strictObject(hostConnection);
export type HostConnection = z.output<typeof HostConnection>;

/** A `HostConnection`, with the URL that the Git host calls after a push. */
export const Connection = z.strictObject({ ...hostConnection, webhook_url: z.string() });
export type Connection = z.output<typeof Connection>;

/**
 * The fields of a connection that a person sets. If the URL stays, a null secret or token keeps the stored one. Otherwise a
 * null secret makes a new secret, and a null token means no token.
 */
export interface ConnectionSettings {
  url: string;
  branch: string;
  deploy_on: HostConnection['deploy_on'];
  poll_minutes: number | null;
  secret: string | null;
  token: string | null;
}

/** Stands for the ref in a delivery that does not say which ref was pushed. */
export const ANY_REF = '*';

/** A delivery of a webhook whose signature was verified. */
export interface HookDelivery {
  /** Identifies repeated deliveries by their signed content, because a sender can forge the headers that are not signed. */
  digest: string;
  /** The Git host's id of the delivery; may be empty. */
  delivery: string;
  event: string;
  /** The full name of the pushed ref, or `ANY_REF`; null when the delivery reports no push, or a deleted ref. */
  ref: string | null;
  /** The commit to which the push moved a branch; null when unknown, or for other refs. */
  after: string | null;
  /** The reported pull request; null when the delivery reports none. */
  pull: PullEvent | null;
}

export const connections = [
  approve,
  operation({
    name: 'source.get',
    summary:
      'Reads which repository elsewhere the app is deployed from, its deploy key and its last deliveries',
    method: 'GET',
    path: '/v1/apps/:id/source',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: Connection,
    errors: ['source_not_connected', 'host_unavailable'],
  }),
  operation({
    name: 'source.connect',
    summary: 'Deploys the app from a repository on GitHub, GitLab, Forgejo, Gitea or any other Git host',
    method: 'POST',
    path: '/v1/apps/:id/source',
    needs: 'admin',
    input: z.strictObject({
      id: reference,
      url,
      branch: name.default('main'),
      deploy_on: settings.deploy_on.default('main'),
      poll_minutes: settings.poll_minutes.default(null),
      secret: secret.optional(),
      token: token.optional(),
    }),
    output: z.strictObject({
      ...Connection.shape,
      /** Signs the deliveries of the webhook. It is shown once. */
      secret: z.string(),
    }),
    secrets: ['secret'],
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'source.disconnect',
    summary:
      'Disconnects the app from its repository, and deletes the deploy key; the live release continues to serve',
    method: 'DELETE',
    path: '/v1/apps/:id/source',
    needs: 'admin',
    input: z.strictObject({ id: reference }),
    output: nothing,
    errors: ['source_not_connected', 'host_unavailable'],
  }),
  operation({
    name: 'source.sync',
    summary:
      'Fetches the connected repository now, and deploys its newest commit or the given branch, tag or commit',
    method: 'POST',
    path: '/v1/apps/:id/source/sync',
    needs: 'push',
    input: z.strictObject({ id: reference, ref: name.optional() }),
    output: z.strictObject({
      sha: z.string(),
      /** The id of the new deploy; null when main already points to this commit. */
      deploy_id: id.nullable(),
    }),
    errors: ['source_not_connected', 'import_failed', 'commit_conflict', 'rate_limited', 'host_unavailable'],
  }),
] as const;
