// Secrets and variables of an app's Worker. RPC only. Values of secrets are write-only.
import * as z from 'zod';
import { listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { SECRET_VALUE_BYTES, VAR_VALUE_BYTES, VARS_LIMIT } from '../sizes.ts';
import { byteLength } from '../text.ts';

const name = z
  .string()
  .max(128)
  .regex(/^[A-Za-z_$][A-Za-z0-9_$]*$/, 'must be a JavaScript identifier of letters, digits, _ and $')
  .refine((value) => value !== '__proto__', {
    error: 'is a name that JavaScript reserves; choose another name',
  });

/** The value of a secret. The app's process gets the value in its environment, where a NUL byte would end the value. */
export const secretValue = z
  .string()
  .max(SECRET_VALUE_BYTES)
  .refine((value) => byteLength(value) <= SECRET_VALUE_BYTES, {
    error: `must have at most ${SECRET_VALUE_BYTES} bytes in UTF-8`,
  })
  .refine((value) => value.isWellFormed(), { error: 'must be valid Unicode' })
  .regex(/^[^\0]*$/, 'must not have a NUL character');

/** Changes of secrets by name. `null` deletes one. */
export const SecretChanges = z.record(name, secretValue.nullable());

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
    summary: "Sets a secret of the app's Worker; a running app is restarted with the secret at once",
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, name, value: secretValue }),
    output: z.strictObject({
      ...Secret.shape,
      /** Whether a running process has the secret already. */
      in_effect: z.boolean(),
      /**
       * Why the app did not start with the secret; then the previous process keeps running. Null: the app started, or did not
       * need to start.
       */
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

/** Any JSON value, as in `vars` of a Wrangler configuration. */
const json = z
  .unknown()
  .refine(isJson, { error: `is required, and must have at most ${VAR_VALUE_BYTES} bytes as JSON` });

/** JSON values by name. They override variables of the Wrangler configuration, or add variables. */
export const Overrides = z.record(name, json).refine((value) => Object.keys(value).length <= VARS_LIMIT, {
  error: `must have at most ${VARS_LIMIT} entries`,
});

export const Var = z.strictObject({
  name: z.string(),
  /** The value that the Worker gets, unless a secret or another binding has the same name. */
  value: z.unknown(),
  /** The override, which deploys keep; null for a variable without one. */
  override: z
    .strictObject({
      /** Whether the live release's configuration has the variable too. */
      replaces: z.boolean(),
      updated_at: time,
    })
    .nullable(),
});
export type Var = z.output<typeof Var>;

/** How a change affected the app's process. */
const renewal = {
  /** Whether a running process has the change already. */
  in_effect: z.boolean(),
  /**
   * Why the app did not start with the change; then the previous process keeps running. Null: the app started, or did not need
   * to start.
   */
  problem: z.string().nullable(),
};

export const vars = [
  operation({
    name: 'vars.list',
    summary:
      "Lists the variables of the app's Worker: the variables of its configuration, and their overrides",
    method: 'GET',
    needs: 'push',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(Var),
    errors: ['host_unavailable'],
  }),
  operation({
    name: 'vars.set',
    summary:
      "Overrides a variable of the app's Worker, also for later deploys; a running app is restarted at once",
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, name, value: json }),
    output: z.strictObject({ name: z.string(), value: z.unknown(), updated_at: time, ...renewal }),
    status: 201,
    replaces: true,
    errors: ['quota_exceeded', 'transition_conflict', 'host_unavailable'],
  }),
  operation({
    name: 'vars.unset',
    summary:
      'Removes an override, so that the variable has the value of the configuration again. A running app is restarted at once',
    method: 'POST',
    needs: 'push',
    input: z.strictObject({ id: reference, name: reference }),
    output: z.strictObject(renewal),
    errors: ['var_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;

function isJson(value: unknown): boolean {
  const text = JSON.stringify(value) as string | undefined;
  return text !== undefined && byteLength(text) <= VAR_VALUE_BYTES;
}
