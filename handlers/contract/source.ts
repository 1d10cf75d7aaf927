// The repository, read and changed without git.
import * as z from 'zod';
import { id, reference, text } from './fields.ts';
import { operation } from './operation.ts';

const path = z.string().min(1).max(1024);
const sha = z.string().regex(/^[0-9a-f]{40}$/);

export const source = [
  operation({
    name: 'source.tree',
    summary: 'Lists the files at the tip of main',
    method: 'GET',
    path: '/v1/apps/:id/tree',
    input: z.strictObject({ id: reference, path: path.optional() }),
    output: z.strictObject({
      sha: sha.nullable(),
      items: z.array(
        z.strictObject({ path: z.string(), type: z.string(), mode: z.string(), size: z.int().nullable() }),
      ),
      next_cursor: z.string().nullable(),
    }),
    status: 200,
    errors: ['app_not_found', 'path_not_found'],
  }),
  operation({
    name: 'source.blob',
    summary: "Reads a file's contents at the tip of main",
    method: 'GET',
    path: '/v1/apps/:id/blob/:path+',
    input: z.strictObject({ id: reference, path }),
    output: z.strictObject({
      path: z.string(),
      sha,
      mode: z.string(),
      size: z.int(),
      content: z.string().optional(),
      content_base64: z.string().optional(),
    }),
    status: 200,
    errors: ['app_not_found', 'path_not_found'],
  }),
  operation({
    name: 'source.diff',
    summary: 'Shows what main has that the live deploy has not',
    method: 'GET',
    path: '/v1/apps/:id/diff',
    input: z.strictObject({ id: reference }),
    output: z.strictObject({ from: sha.nullable(), to: sha.nullable(), diff: z.string() }),
    status: 200,
    errors: ['app_not_found'],
  }),
  operation({
    name: 'source.commit',
    summary: 'Commits files to main and deploys them; wakes a sleeping app first',
    method: 'POST',
    path: '/v1/apps/:id/source/commit',
    input: z.strictObject({
      id: reference,
      message: text(10_000),
      author_email: z.email().max(254),
      author_name: text(200).optional(),
      parent: sha.optional(),
      files: z
        .array(
          z.strictObject({
            path,
            content: z.string().optional(),
            content_base64: z.base64().optional(),
            mode: z.enum(['100644', '100755', '120000']).optional(),
            delete: z.boolean().optional(),
            from: path.optional(),
          }),
        )
        .min(1)
        .max(1000),
    }),
    output: z.strictObject({ sha, deploy_id: id }),
    status: 202,
    errors: ['app_not_found', 'transition_conflict', 'host_unavailable'],
    bodyLimit: 25 * 1024 * 1024,
  }),
] as const;
