// Secrets of an app's Worker. RPC only. Values are write-only.
import * as z from 'zod';
import { listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { SECRET_VALUE_BYTES } from '../sizes.ts';
import { byteLength } from '../text.ts';

const name = z
  .string()
  .max(128)
  .regex(/^[A-Za-z_$][A-Za-z0-9_$]*$/, 'must be a JavaScript identifier of letters, digits, _ and $')
  .refine((value) => value !== '__proto__', { error: 'is not a name that an object can have' });

/** The value is passed in the environment of the app's process, where a NUL byte would end it. */
const value = z
  .string()
  .max(SECRET_VALUE_BYTES)
  .refine((value) => byteLength(value) <= SECRET_VALUE_BYTES, {
    error: `must have at most ${SECRET_VALUE_BYTES} bytes in UTF-8`,
  })
  .refine((value) => value.isWellFormed(), { error: 'must be valid Unicode' })
  .regex(/^[^\0]*$/, 'must not have a NUL character');

/** Changes of secrets by name. `null` deletes one. */
export const SecretChanges = z.record(name, value.nullable());

export const Secret = z.strictObject({ name: z.string(), created_at: time, updated_at: time });

export const secrets = [
  operation({
    name: 'secrets.list',
    summary: "Lists the names of an app's secrets; their values are never shown",
    method: 'GET',
    needs: 'push',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Secret),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'secrets.set',
    summary: "Sets a secret of the app's Worker; an app that runs is started again with it at once",
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, name, value }),
    output: z.strictObject({
      ...Secret.shape,
      /** Whether a running process has it already. */
      in_effect: z.boolean(),
      /** Why the app did not start with it. The previous process keeps running. */
      problem: z.string().nullable(),
    }),
    status: 201,
    replaces: true,
    errors: ['secret_not_found', 'quota_exceeded', 'host_unavailable'],
  }),
  operation({
    name: 'secrets.delete',
    summary: 'Deletes a secret; an app that runs is started again without it at once',
    method: 'DELETE',
    needs: 'push',
    input: z.strictObject({ id: reference, name: reference }),
    output: nothing,
    errors: ['secret_not_found', 'host_unavailable'],
  }),
] as const;
