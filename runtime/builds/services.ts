// What a deploy has to say of the other apps that a release is bound to.
import { BuildFailure } from '../../bundler/failure.ts';
import { readRelease } from './release.ts';

/**
 * @param hasSibling whether there is an app of that slug that has the same owner
 * @throws {BuildFailure} naming each binding to an app that is not there
 */
export async function checkServices(release: string, hasSibling: (slug: string) => boolean): Promise<void> {
  const described = await readRelease(release);
  const missing = (described?.services ?? []).filter(
    ({ service }) => service !== null && !hasSibling(service),
  );
  if (missing.length === 0) return;
  const list = missing.map(({ binding, service }) => `${binding} is bound to ${service}`).join(', ');
  throw new BuildFailure(
    `services: ${list}, and the owner of this app has no app of that name: create it, or correct "service"`,
  );
}
