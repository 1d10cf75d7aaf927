// Build settings of an app: which pushes are deployed, its folder in the repository, and its commands.
import * as z from 'zod';
import { reference } from '../fields.ts';
import { operation } from '../operation.ts';
import { BUILD_COMMAND_BYTES } from '../sizes.ts';
import { byteLength } from '../text.ts';
import { pathFault } from './path.ts';

/** Normalizes a folder: `./apps//web/` becomes `apps/web`, and `.` stands for the base folder. */
const folder = z
  .string()
  .max(1024)
  .transform((given, context) => {
    if (given === '') {
      context.addIssue({ code: 'custom', message: 'must name a folder, or be null' });
      return z.NEVER;
    }
    const parts = given.split('/').filter((part, i) => (part !== '' || i === 0) && part !== '.');
    if (parts.length === 0) return '.';
    const fault = pathFault(parts.join('/'));
    if (fault === null) return parts.join('/');
    context.addIssue({ code: 'custom', message: fault });
    return z.NEVER;
  });

/** A shell command. It has no NUL byte, which would end an argument of the process. */
const commandLine = z
  .string()
  .max(BUILD_COMMAND_BYTES)
  .refine((value) => byteLength(value) <= BUILD_COMMAND_BYTES, {
    error: `must have at most ${BUILD_COMMAND_BYTES} bytes in UTF-8`,
  })
  .regex(/^[^\0]*$/, 'must not have a NUL character')
  .refine((value) => value.trim() !== '', { error: 'must be a command, or null' });

/** `main`: each push to main; `tags`: a pushed tag with the highest version; `manual`: only calls of `deploys.create`. */
const deployOn = z.enum(['main', 'tags', 'manual']);

/** If a field is null, Cellar detects its value. If `release_command` is null, no command runs. */
export const Builds = z.strictObject({
  root_directory: z.string().nullable(),
  install_command: z.string().nullable(),
  build_command: z.string().nullable(),
  release_command: z.string().nullable(),
  output_directory: z.string().nullable(),
  deploy_on: deployOn,
});

export const builds = [
  operation({
    name: 'builds.get',
    summary: 'Reads the root directory and the build commands of an app, and which pushes deploy it',
    method: 'GET',
    needs: 'view',
    input: z.strictObject({ id: reference }),
    output: Builds,
  }),
  operation({
    name: 'builds.set',
    summary:
      'Sets the root directory and the build commands of an app, and which pushes deploy it; omitted fields do not change',
    method: 'POST',
    needs: 'admin',
    input: z.strictObject({
      id: reference,
      root_directory: folder.nullable().optional(),
      install_command: commandLine.nullable().optional(),
      build_command: commandLine.nullable().optional(),
      release_command: commandLine.nullable().optional(),
      output_directory: folder.nullable().optional(),
      deploy_on: deployOn.optional(),
    }),
    output: Builds,
    errors: ['transition_conflict', 'host_unavailable'],
  }),
] as const;
