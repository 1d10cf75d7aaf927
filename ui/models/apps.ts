// The apps that one may see.
import { computed } from '@preact/signals';
import { api, type Result } from '../api.ts';
import { resource } from '../live.ts';
import { queryOf } from '../router.ts';

export type App = Result<'apps.get'>;

/** How often the list is read again while it is shown. */
const EVERY_MS = 10_000;

/** All apps, and those of them that the filter leaves. */
export function appsModel() {
  const apps = resource((signal) => everyApp(signal), { everyMs: EVERY_MS });
  const filter = computed(() => queryOf('q').trim().toLowerCase());
  const shown = computed(() => (apps.data.value ?? []).filter(({ slug }) => slug.includes(filter.value)));
  return { apps, shown, close: apps.close };
}

async function everyApp(signal: AbortSignal): Promise<App[]> {
  const items: App[] = [];
  let cursor: string | null = null;
  do {
    const read: Result<'apps.list'> = await api(
      'apps.list',
      { limit: 200, ...(cursor && { cursor }) },
      { signal },
    );
    items.push(...read.items);
    cursor = read.next_cursor;
  } while (cursor !== null);
  return items;
}
