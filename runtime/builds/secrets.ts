// Checks a release's secrets, and says in the deploy's log what is missing.
import { readdirSync } from 'node:fs';
import { BuildFailure } from '../../bundler/failure.ts';
import { dividedSecrets, hyperdriveNames } from '../fleets/config/secret-bindings.ts';
import type { DeployLog } from './deploy-log.ts';
import { readRelease } from './release.ts';

const HOW_TO_SET = 'set it with the RPC method secrets.set';
/** Where Wrangler keeps secrets for local work. */
const LOCAL_SECRETS = '.dev.vars';

/**
 * Compares the secrets that a release asks for, and its other bindings, with the secrets of the app.
 * @throws {BuildFailure} naming each missing secret
 */
export async function checkSecrets(release: string, names: string[], log: DeployLog): Promise<void> {
  const described = await readRelease(release);
  if (described === null) return;
  const missing = (described.requiredSecrets ?? []).filter((name) => !names.includes(name));
  if (missing.length > 0) {
    const list = missing.join(', ');
    throw new BuildFailure(`secrets.required: the app has no secret ${list}; ${HOW_TO_SET}, then push again`);
  }
  const { given, taken } = dividedSecrets(described, names);
  for (const name of given.filter((name) => Object.hasOwn(described.vars, name)))
    log.line(`${name} is a secret and among the vars: the secret is given to the Worker`);
  for (const name of hyperdriveNames(described.outward).filter((name) => !names.includes(name)))
    log.line(
      `the Hyperdrive binding ${name} has no connection string yet: it is the secret ${name}; ${HOW_TO_SET}`,
    );
  for (const name of taken)
    log.line(`${name} is a secret and the name of a binding: the binding is given to the Worker`);
}

/** Says that a file of local secrets is no way to set them here. */
export function warnOfLocalSecrets(project: string, environment: string | null, log: DeployLog): void {
  const read = [LOCAL_SECRETS, `${LOCAL_SECRETS}.${environment}`];
  for (const name of readdirSync(project).filter((name) => read.includes(name))) {
    log.line(
      `${name} is not read on a deploy. To give the Worker a secret, ${HOW_TO_SET}; and take the file out of the repository, whose readers can read it`,
    );
  }
}
