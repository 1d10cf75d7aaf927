// Build variables: environment variables of the install and build commands.
import * as z from 'zod';
import { listOf, nothing, page, reference, time } from '../fields.ts';
import { operation } from '../operation.ts';
import { ENV_VALUE_BYTES } from '../sizes.ts';
import { byteLength } from '../text.ts';

/** Names reserved for the platform. `*` matches any ending. */
export const reservedEnvNames: readonly string[] = [
  'RUNNER_*',
  'SERVICE_*',
  'CELLAR_*',
  'GIT_*',
  'LD_*',
  'DYLD_*',
  'npm_config_*',
  'PATH',
  'HOME',
  'SHELL',
  'USER',
  'TMPDIR',
  'PWD',
  'CI',
  'NODE_OPTIONS',
  'NODE_PATH',
  'BASH_ENV',
  'ENV',
];

/** Whether a name is reserved for the platform. npm reads its names in any case. */
export function isReservedEnvName(name: string): boolean {
  return reservedEnvNames.some((reserved) => {
    if (!reserved.endsWith('*')) return name === reserved;
    const prefix = reserved.slice(0, -1);
    return name.startsWith(prefix) || (prefix === 'npm_config_' && name.toLowerCase().startsWith(prefix));
  });
}

/** Maximum variables of one app. */
export const ENV_LIMIT = 100;

const name = z
  .string()
  .max(128)
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must have letters, digits and underscores, and not begin with a digit')
  .refine((value) => !isReservedEnvName(value), {
    error:
      "is reserved for the platform: set it before the command that needs it, such as `cellar builds set --build-command 'NODE_OPTIONS=--max-old-space-size=4096 npm run build'`",
  });

/** The value of a build variable. It has no NUL byte, which would end the value in the environment of a process. */
const value = z
  .string()
  .max(ENV_VALUE_BYTES)
  .refine((value) => byteLength(value) <= ENV_VALUE_BYTES, {
    error: `must have at most ${ENV_VALUE_BYTES} bytes in UTF-8`,
  })
  .regex(/^[^\0]*$/, 'must not have a NUL character');

export const EnvVariable = z.strictObject({ name: z.string(), value: z.string(), updated_at: time });

export const env = [
  operation({
    name: 'env.list',
    summary: "Lists an app's build variables by name",
    method: 'GET',
    path: '/v1/apps/:id/env',
    needs: 'push',
    input: z.strictObject({ id: reference, ...page }),
    output: listOf(EnvVariable),
  }),
  operation({
    name: 'env.set',
    summary: 'Sets a build variable, which install and build commands get from the next deploy on',
    method: 'POST',
    path: '/v1/apps/:id/env',
    needs: 'admin',
    input: z.strictObject({ id: reference, name, value }),
    output: EnvVariable,
    status: 201,
    replaces: true,
    errors: ['quota_exceeded', 'transition_conflict', 'host_unavailable'],
    secrets: ['value'],
  }),
  operation({
    name: 'env.delete',
    summary: 'Removes a build variable, from the next deploy on',
    method: 'DELETE',
    path: '/v1/apps/:id/env/:name',
    needs: 'admin',
    input: z.strictObject({ id: reference, name: reference }),
    output: nothing,
    errors: ['env_not_found', 'transition_conflict', 'host_unavailable'],
  }),
] as const;
