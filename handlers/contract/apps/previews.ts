// Previews: releases of other branches and of uploaded versions, at addresses of their own.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { Deploy, deployStatus } from './deploys.ts';
import { Overrides } from './secrets.ts';

/**
 * `branches`: whether pushes to branches other than main make previews. `storage`: a new preview's storage starts empty, or as
 * a copy of the app's. `vars`: overrides of variables in previews. The app's overrides do not apply there.
 */
export const PreviewSettings = z.strictObject({
  branches: z.boolean(),
  storage: z.enum(['empty', 'copy']),
  vars: Overrides,
});

export const Preview = z.strictObject({
  /** First part of its address, before `--` and the app's slug. */
  name: z.string(),
  url: z.string(),
  /** The branch of the preview; null for an upload. */
  branch: z.string().nullable(),
  /** Whether one of its releases is live at the address. */
  serves: z.boolean(),
  /** The newest deploy of the preview; null before the first deploy. `previews.log` reads its log. */
  deploy: z
    .strictObject({
      id,
      sha: z.string(),
      message: z.string(),
      author: z.string(),
      status: deployStatus,
      error: z.string().nullable(),
      started_at: time.nullable(),
      finished_at: time.nullable(),
    })
    .nullable(),
  created_at: time,
  /** Expiry: 7 days after its last push or upload. */
  expires_at: time,
});
export type Preview = z.output<typeof Preview>;

const one = { id: reference, preview: reference };

export const previews = [
  operation({
    name: 'previews.get',
    summary:
      'Reads the settings of previews: whether pushes to branches other than main make previews, how their storage starts, and the overrides of their variables',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: PreviewSettings,
  }),
  operation({
    name: 'previews.set',
    summary:
      'Sets whether pushes to branches other than main make previews, how their storage starts, and all overrides of their variables; omitted fields do not change',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({ id: reference, ...PreviewSettings.partial().shape }),
    output: PreviewSettings,
    errors: ['transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'previews.list',
    summary: "Lists an app's previews, newest first",
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Preview),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'previews.log',
    summary: "Reads the log of a preview's newest deploy, up to now",
    method: 'GET',
    needs: 'view',
    input: z.strictObject(one),
    output: z.strictObject({ deploy_id: id, status: deployStatus, log: z.string() }),
    errors: ['preview_not_found', 'deploy_not_found', 'host_unavailable'],
  }),
  operation({
    name: 'previews.promote',
    summary: 'Deploys the release of a preview to the app, without a build; wakes a sleeping app first',
    method: 'POST',
    needs: 'push',
    input: z.strictObject(one),
    output: Deploy,
    status: 202,
    errors: ['preview_not_found', 'release_unavailable', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'previews.delete',
    summary: 'Deletes a preview and its storage; the branch or version stays',
    method: 'DELETE',
    needs: 'push',
    input: z.strictObject(one),
    output: nothing,
    errors: ['preview_not_found', 'host_unavailable'],
  }),
] as const;
