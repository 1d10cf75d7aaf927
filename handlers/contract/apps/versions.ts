// Versions of an app. Each deploy serves one version. Two versions can share the requests of an app.
import * as z from 'zod';
import { id, reference, time } from '../fields.ts';
import type { DeployFact, DeployVersion } from '../host/host-calls.ts';
import { operation } from '../operation.ts';

/** Returns the version that a deploy serves: its own version, or the version of an earlier deploy. */
export function versionOf({ id, message, created_at, version }: DeployFact): DeployVersion {
  return version ?? { id, tag: '', message, created_at };
}

/** Longest note of a split, in characters, as on Cloudflare. */
export const MESSAGE_LENGTH = 1000;

/** A percentage of requests, with at most three decimals. */
const percentage = z.number().min(0).max(100).multipleOf(0.001);

/**
 * The versions that serve an app: two versions share its requests, or one version gets all of them. The first version is that
 * of the live release. The list is empty without a live release.
 */
export const Split = z.strictObject({
  versions: z.array(
    z.strictObject({ id, tag: z.string(), message: z.string(), created_at: time, percentage }),
  ),
});
export type Split = z.output<typeof Split>;

export const versions = [
  operation({
    name: 'split.get',
    summary: 'Reads which versions serve the app, each with its percentage of the requests',
    method: 'GET',
    path: '/v1/apps/:id/split',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: Split,
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'split.set',
    summary:
      'Lets two versions of an app without stored data share its requests, or gives one version all of them; waits until they serve',
    method: 'POST',
    path: '/v1/apps/:id/split',
    needs: 'push',
    input: z.strictObject({
      id: reference,
      versions: z
        .array(
          z.strictObject({
            version: reference.meta({
              description: 'The id of the version, or its UUID as Wrangler shows it.',
            }),
            percentage: percentage.meta({
              description: 'The percentage of the requests that the version gets.',
            }),
          }),
        )
        .min(1)
        .max(2),
      message: z.string().max(MESSAGE_LENGTH).optional(),
    }),
    output: Split,
    errors: [
      'deploy_not_found',
      'release_unavailable',
      'split_impossible',
      'deploy_failed',
      'transition_conflict',
      'host_unavailable',
    ],
  }),
] as const;
