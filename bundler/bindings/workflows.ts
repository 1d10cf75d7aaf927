// The Workflows of a Wrangler configuration.

import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { Workflow } from '../release.ts';
import { isOther } from './missing-bindings.ts';

/** A valid name of a Workflow, by Wrangler's rule. Cellar uses it as the name of a directory. */
export const WORKFLOW_NAME = /^[a-zA-Z0-9_][a-zA-Z0-9-_]{0,63}$/;

/**
 * Returns the Workflows that a configuration binds.
 * @param file the configuration's name in messages
 * @param exports the names that the Worker's entry exports; `null` when they are not known yet
 * @throws {BuildFailure} when a class is not exported, or two Workflows share a name or a class
 */
export function workflows(file: string, config: WranglerConfig, exports: string[] | null): Workflow[] {
  const own = (config.workflows ?? []).filter((each) => !isOther(each, config.name));
  const all = own.map((asked) => {
    const { binding, name, class_name: className, limits, default_retention } = asked;
    const where = `${file}: workflows: ${name}`;
    if (exports !== null && !exports.includes(className))
      throw new BuildFailure(`${where}: the Worker does not export a class ${className}`);
    const { success_retention: success, error_retention: error } = default_retention ?? {};
    return {
      binding,
      name,
      className,
      ...(limits?.steps !== undefined && { steps: limits.steps }),
      ...(default_retention && {
        retention: { ...(success !== undefined && { success }), ...(error !== undefined && { error }) },
      }),
    };
  });
  refuseSharing(`${file}: workflows`, all);
  return all;
}

/**
 * Refuses Workflows that share a name or a class. workerd's Workflows engine finds the class by the name, and the name
 * by the class. Wrangler refuses only equal names.
 * @param where begins the message
 * @throws {BuildFailure} naming two Workflows that share a name or a class
 */
export function refuseSharing(where: string, all: Workflow[]): void {
  for (const [n, one] of all.entries())
    for (const other of all.slice(n + 1)) {
      if (one.name === other.name)
        throw new BuildFailure(`${where}: ${one.name} occurs twice; give each Workflow a name of its own`);
      if (one.className === other.className)
        throw new BuildFailure(
          `${where}: the class ${one.className} has two names, ${one.name} and ${other.name}: give each a class of its own, as in \`class Second extends ${one.className} {}\``,
        );
    }
}
