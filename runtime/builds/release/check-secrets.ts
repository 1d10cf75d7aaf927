// Checks a release's secrets and overrides of variables, and logs what differs from its configuration.
import { lstat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import {
  CONNECTION_STRING,
  dividedSecrets,
  hyperdriveNames,
  isConnectionString,
} from '../../../bundler/bindings/secrets.ts';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { DeployLog } from '../deploy/deploy-log.ts';
import { readRelease } from './release.ts';

/** Where Wrangler keeps secrets for local development. */
const LOCAL_SECRETS = '.dev.vars';

/**
 * Compares a release's required secrets, and its other bindings, with the app's secrets.
 * @throws {BuildFailure} naming each missing secret
 */
export async function checkSecrets(
  release: string,
  secrets: Record<string, string>,
  log: DeployLog,
): Promise<void> {
  const described = await readRelease(release);
  if (described === null) return;
  const names = Object.keys(secrets);
  const missing = (described.requiredSecrets ?? []).filter((name) => !names.includes(name));
  if (missing.length > 0) {
    throw new BuildFailure(
      `secrets.required: the app has no secret ${missing.join(', ')}; ${howToSet(missing[0]!)}, then deploy again`,
    );
  }
  const { given, taken } = dividedSecrets(described, names);
  for (const name of given.filter((name) => Object.hasOwn(described.vars, name)))
    log.line(`${name} is both a secret and a var: the Worker gets the secret`);
  for (const name of hyperdriveNames(described.outward)) {
    if (!names.includes(name))
      log.line(
        `the Hyperdrive binding ${name} has no connection string yet: it is the secret ${name}; ${howToSet(name)}`,
      );
    else if (!isConnectionString(secrets[name]!))
      log.line(
        `warning: the secret ${name} is not a connection string, so the Hyperdrive binding ${name} cannot connect: ${howToSet(name)}, to a value such as ${CONNECTION_STRING}`,
        'warn',
      );
  }
  for (const name of taken) log.line(`${name} is both a secret and a binding: the Worker gets the binding`);
}

/** Logs which variables of a release are overridden. @param secrets names of the app's secrets, which win over variables */
export async function reportOverrides(
  release: string,
  overrides: Record<string, unknown>,
  secrets: string[],
  log: DeployLog,
): Promise<void> {
  const described = await readRelease(release);
  const names = Object.keys(overrides).filter((name) => !secrets.includes(name));
  if (described === null || names.length === 0) return;
  const { given } = dividedSecrets(described, names);
  for (const name of names) {
    if (!given.includes(name))
      log.line(`${name} is both an override of a var and a binding: the Worker gets the binding`);
    else if (Object.hasOwn(described.vars, name))
      log.line(`the var ${name} is overridden: the Worker gets the value that was set for this app`);
    else log.line(`the var ${name} is not in the configuration: the Worker gets what was set for this app`);
  }
}

/** Logs that a deploy does not read files of local secrets, if there are any. */
export async function warnOfLocalSecrets(
  project: string,
  environment: string | null,
  log: DeployLog,
): Promise<void> {
  const names = [LOCAL_SECRETS, ...(environment === null ? [] : [`${LOCAL_SECRETS}.${environment}`])];
  // An environment may have any name; it must not lead to another directory.
  for (const name of names.filter((name) => basename(name) === name)) {
    const isThere = await lstat(join(project, name)).then(
      () => true,
      () => false,
    );
    if (!isThere) continue;
    log.line(
      `${name} is not read on a deploy. To give the Worker a secret, ${howToSet('NAME')}; and take the file out of the repository, whose readers can read it`,
    );
  }
}

function howToSet(name: string): string {
  return `set it with \`cellar secrets set ${name}\` or in the app's settings`;
}
