// Warnings about a version: bindings without a target here, and missing or conflicting secrets.

import { dividedSecrets } from '../../../bundler/bindings/secrets.ts';
import { CELLAR } from '../../../bundler/bindings/services.ts';
import type { Release } from '../../../bundler/release.ts';
import { queuesElsewhere } from '../../fleets/config/services.ts';

/**
 * Finds the bindings whose target does not run here.
 * @param hasAi whether there is an AI server
 * @returns a sentence that lists them; empty when all targets run here
 */
export function missingBindingsWarning(release: Release, hasAi: boolean): string {
  const others = (release.services ?? []).flatMap(({ binding, service }) =>
    service === null || service === CELLAR ? [] : [`${binding} (the app ${service})`],
  );
  const classes = (release.objectsElsewhere ?? []).map(
    ({ binding, script, className }) => `${binding} (the class ${className} of the app ${script})`,
  );
  const servers = (release.outward ?? []).flatMap(({ type, binding }) => {
    if (type === 'send_email') return [`${binding} (a mail server)`];
    if (type === 'browser') return [`${binding} (a browser)`];
    return type === 'ai' && !hasAi ? [`${binding} (an AI server, which RUNNER_AI_URL names)`] : [];
  });
  servers.push(...(release.containers ?? []).map(({ className }) => `${className} (a container)`));
  const queues = queuesElsewhere(release).map((queue) => `the queue ${queue}, which another app consumes`);
  const namespaces = (release.dispatchNamespaces ?? []).map(
    ({ binding, namespace }) => `${binding} (the dispatch namespace ${namespace})`,
  );
  const missing = [...others, ...namespaces, ...classes, ...servers, ...queues];
  const certificates = (release.mtlsCertificates ?? []).map(({ binding }) => binding);
  const lists: [string, string[]][] = [
    ['`cellar dev` does not run what these bindings call, so the calls fail', missing],
    ['these bindings send requests without their client certificate', certificates],
    ['no tail events are sent to the tail Workers', release.tailConsumers ?? []],
  ];
  return lists
    .flatMap(([what, names]) => (names.length === 0 ? [] : [`${what}: ${names.join(', ')}`]))
    .join('; ');
}

/** Returns warnings about missing secrets, and about secrets named like a binding. @param names of the secrets for local development */
export function secretWarnings(release: Release, names: string[]): string[] {
  const missing = (release.requiredSecrets ?? []).filter((name) => !names.includes(name));
  const stored = (release.storeSecrets ?? []).map(({ binding }) => binding);
  const absent = stored.filter((name) => !names.includes(name));
  const taken = dividedSecrets(release, names).taken.filter((name) => !stored.includes(name));
  const warnings: string[] = [];
  if (missing.length > 0)
    warnings.push(`secrets.required: .dev.vars has no ${missing.join(', ')}; a deploy without it fails`);
  if (absent.length > 0)
    warnings.push(
      `secrets_store_secrets: .dev.vars has no ${absent.join(', ')}, and get() throws; a line with the binding's name gives the value`,
    );
  if (taken.length > 0)
    warnings.push(`.dev.vars or .env: ${taken.join(', ')} is a binding's name, and the binding is given`);
  return warnings;
}
