// Dispatch namespaces. They are created with Wrangler, which also uploads their scripts.
import * as z from 'zod';
import { id, listOf, nothing, page, reference, time } from './fields.ts';
import { operation } from './operation.ts';

export const dispatch = [
  operation({
    name: 'dispatch.list',
    summary: 'Lists dispatch namespaces by name, with how many scripts each has',
    method: 'GET',
    needs: 'account',
    input: z.strictObject(page),
    output: listOf(
      z.strictObject({
        id,
        name: z.string(),
        owner: z.strictObject({ id, name: z.string() }),
        scripts: z.int(),
        created_at: time,
      }),
    ),
  }),
  operation({
    name: 'dispatch.delete',
    summary: 'Deletes a dispatch namespace without scripts',
    method: 'DELETE',
    needs: 'account',
    input: z.strictObject({ owner: reference, dispatch: reference }),
    output: nothing,
    errors: ['dispatch_not_found', 'dispatch_in_use'],
  }),
] as const;
