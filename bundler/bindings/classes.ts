// The Durable Object classes of a Wrangler configuration: their bindings and their migrations.

import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { Bundle, ClassMigration, ObjectsElsewhere } from '../release.ts';
import { isOther } from './missing-bindings.ts';

/**
 * Returns the bindings to the project's own Durable Object classes.
 * @param file the configuration's name in messages
 * @param exports the names that the Worker's entry exports
 * @throws {BuildFailure} when a class is not exported
 */
export function durableObjects(
  file: string,
  config: WranglerConfig,
  exports: string[],
): Bundle['durableObjects'] {
  const own = config.durable_objects.bindings.filter((each) => !isOther(each, config.name));
  return own.map(({ name, class_name: className }) => {
    const where = `${file}: durable_objects.bindings: ${name}`;
    if (!exports.includes(className)) {
      throw new BuildFailure(`${where}: the Worker does not export a class ${className}`);
    }
    return { binding: name, className };
  });
}

/**
 * Returns the bindings to Durable Object classes of other apps.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} when there are such bindings, but no Worker
 */
export function objectsElsewhere(
  file: string,
  { name: own, main, durable_objects }: Pick<WranglerConfig, 'name' | 'main' | 'durable_objects'>,
): ObjectsElsewhere[] {
  const others = durable_objects.bindings.filter((each) => isOther(each, own));
  if (others.length > 0 && main === undefined)
    throw new BuildFailure(
      `${file}: durable_objects.bindings: the project has no Worker; set "main" to its file`,
    );
  return others.map(({ name, class_name, script_name }) => ({
    binding: name,
    script: script_name!,
    className: class_name,
  }));
}

/**
 * Returns the class migrations: from `migrations`, or from `exports`. wrangler refuses a configuration with both.
 * @throws {BuildFailure} when a tag occurs twice, or the type of an export is not supported
 */
export function classMigrations(
  file: string,
  config: Pick<WranglerConfig, 'migrations' | 'exports'>,
): ClassMigration[] {
  const tags = config.migrations.map(({ tag }) => tag);
  const twice = tags.find((tag, i) => tags.indexOf(tag) !== i);
  if (twice !== undefined)
    throw new BuildFailure(
      `${file}: migrations: the tag ${twice} occurs twice; give each migration a tag of its own`,
    );
  const steps = config.migrations.map((step) => ({
    tag: step.tag,
    newClasses: step.new_classes ?? [],
    newSqliteClasses: step.new_sqlite_classes ?? [],
    renamedClasses: step.renamed_classes ?? [],
    deletedClasses: step.deleted_classes ?? [],
  }));
  return Object.keys(config.exports).length > 0 ? [...steps, declaredClasses(file, config.exports)] : steps;
}

function declaredClasses(file: string, exports: WranglerConfig['exports']): ClassMigration {
  const entries = Object.entries(exports).filter(([, { type }]) => type !== 'worker');
  const other = entries.find(([, { type }]) => type !== 'durable-object');
  if (other)
    throw new BuildFailure(
      `${file}: exports: ${other[0]}: the type ${other[1].type} is not supported${other[1].type === 'workflow' ? ': bind it under "workflows"' : ''}`,
    );
  const created = (storage: string) =>
    entries.filter(([, entry]) => (entry.state ?? 'created') === 'created' && entry.storage === storage);
  return {
    tag: null,
    newClasses: created('legacy-kv').map(([name]) => name),
    newSqliteClasses: created('sqlite').map(([name]) => name),
    renamedClasses: entries.flatMap(([from, { renamed_to: to }]) => (to === undefined ? [] : [{ from, to }])),
    deletedClasses: entries.filter(([, { state }]) => state === 'deleted').map(([name]) => name),
  };
}
