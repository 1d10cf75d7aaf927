// The Durable Object classes of other apps that a release is bound to.
import { BuildFailure } from '../../../bundler/failure.ts';
import type { ObjectsElsewhere } from '../../../bundler/release.ts';
import type { KnownApps } from '../../apps/known/known-apps.ts';
import { reason } from '../../log.ts';
import { type KeyOf, readRelease } from './release.ts';

/**
 * Returns the id of the app whose class a binding names.
 * @throws {BuildFailure} naming the binding when the owner has no such app, or when it is the app itself
 */
export function requireScript(
  { binding, script }: ObjectsElsewhere,
  appId: string,
  apps: Pick<KnownApps, 'siblingOf' | 'originOf'>,
): string {
  const found = apps.siblingOf(appId, script);
  const where = `durable_objects.bindings: ${binding}: "script_name" is ${script}`;
  if (found === null)
    throw new BuildFailure(
      `${where}, and the owner of this app has no app of that name: deploy it first, or correct "script_name"`,
    );
  if (found === apps.originOf(appId))
    throw new BuildFailure(`${where}, which is this app: leave "script_name" out`);
  return found;
}

/** Returns a function that finds the unique keys of other apps' classes, for one release of an app. */
export function keyOf(apps: KnownApps, appId: string): KeyOf {
  /**
   * Cached lookups, by app id. A release may have many bindings to one app, and each lookup may read a large description.
   */
  const asked = new Map<string, Promise<Record<string, string>>>();
  const classesOf = (id: string) => {
    const classes =
      asked.get(id) ?? (apps.get(id) === undefined ? apps.others!.classesOf(id) : liveClasses(apps, id));
    asked.set(id, classes);
    return classes;
  };
  return async (named) => {
    const { binding, script, className } = named;
    const id = requireScript(named, appId, apps);
    const where = `durable_objects.bindings: ${binding}`;
    let classes: Record<string, string>;
    try {
      classes = await classesOf(id);
    } catch (error) {
      throw new BuildFailure(
        `${where}: the classes of the app ${script} cannot be read now: ${reason(error)}. Deploy again later`,
      );
    }
    const found = Object.hasOwn(classes, className) ? classes[className] : undefined;
    if (found === undefined)
      throw new BuildFailure(
        `${where}: the live release of the app ${script} has no class ${className}: deploy it with the class first, or correct "class_name"`,
      );
    return found;
  };
}

/** Returns the unique keys of the classes in an app's live release on this host, by class name; empty if nothing is live. */
export async function liveClasses(
  apps: Pick<KnownApps, 'get' | 'release'>,
  appId: string,
): Promise<Record<string, string>> {
  const live = apps.get(appId)?.liveDeployId ?? null;
  if (live === null) return {};
  const release = await readRelease(await apps.release(appId, live));
  const { classes = [], exports } = release ?? {};
  const exported = classes.filter(({ className }) => exports?.includes(className) ?? true);
  return Object.fromEntries(exported.map(({ className, storageId }) => [className, storageId]));
}
