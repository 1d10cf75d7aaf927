// The two versions that share the requests of an app.
import { api, type Result } from '../../api.ts';
import { resource } from '../../live.ts';

export type SplitVersion = Result<'split.get'>['versions'][number];

const EVERY_MS = 5_000;

export function splitModel(id: string) {
  const split = resource((signal) => api('split.get', { id }, { signal }), { everyMs: EVERY_MS });
  return {
    split,
    /** Gives one version all requests. */
    async end(version: string) {
      split.set(await api('split.set', { id, versions: [{ version, percentage: 100 }] }));
    },
    close: split.close,
  };
}

/** Gives a version a percentage of the requests. The live release gets the rest. @throws {Failure} when refused */
export async function share(id: string, version: string, percentage: number): Promise<void> {
  const { versions } = await api('split.get', { id });
  const live = { version: versions[0]!.id, percentage: 100 - percentage };
  await api('split.set', { id, versions: [live, { version, percentage }] });
}
