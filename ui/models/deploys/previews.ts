// The previews of an app, and their settings.
import { api, type Params, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { pages } from '../pages.ts';

export type Preview = Result<'previews.list'>['items'][number];
export type PreviewSettings = Result<'previews.get'>;

const EVERY_MS = 5_000;
/** Page size: more than an app can have, so that one page has all previews. */
const LIMIT = 50;

export function previewsModel(id: string) {
  const previews = pages(
    (cursor, signal) => api('previews.list', { id, limit: LIMIT, cursor }, { signal }),
    ({ name }: Preview) => name,
    { everyMs: EVERY_MS },
  );
  return {
    previews,
    log: async (preview: string) => (await api('previews.log', { id, preview })).log,
    promote: (preview: string) => api('previews.promote', { id, preview }),
    remove: (preview: string) => api('previews.delete', { id, preview }),
    close: previews.close,
  };
}

export function previewSettingsModel(id: string) {
  const settings = resource((signal) => api('previews.get', { id }, { signal }));
  return {
    settings,
    async set(change: Omit<Params<'previews.set'>, 'id'>) {
      settings.set(await api('previews.set', { id, ...change }));
    },
    close: settings.close,
  };
}
