// The objects of a bucket by folder, and a single object.
import { effect } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { resource } from '../../live.ts';
import { pages } from '../pages.ts';
import { uploaded } from './uploads.ts';

export type BucketObject = Result<'storage.r2.list'>['items'][number];

/** An object. `content_base64` has all of its bytes; null for a large object, whose beginning is in `beginning_base64`. */
export type LookedAt = Result<'storage.r2.get'> & { beginning_base64: string | null };

/** Bytes read of an object that is too large to show. */
const BEGINNING_BYTES = 64 * 1024;

/** Returns the part of a key after its last slash. @param key without a trailing slash */
export function nameOf(key: string): string {
  return key.slice(key.lastIndexOf('/') + 1);
}

/** The objects and subfolders of a folder of a bucket: the keys that begin with `prefix`, grouped by the next slash. */
export function folderModel(id: string, bucket: string, prefix: string) {
  const items = pages(
    async (cursor, signal) => {
      const asked = { id, bucket, limit: 200, cursor, delimiter: '/', ...(prefix !== '' && { prefix }) };
      const { items, prefixes = [], next_cursor } = await api('storage.r2.list', asked, { signal });
      const folders = prefixes.map((folder) => ({ folder }));
      return { items: [...folders, ...items], next_cursor };
    },
    (item: { folder: string } | BucketObject) => ('folder' in item ? item.folder : item.key),
  );
  const before = uploaded.peek();
  const watch = effect(() => {
    const done = uploaded.value;
    if (done === before || done?.app !== id || done.bucket !== bucket) return;
    if (done.key.startsWith(prefix)) void items.refresh();
  });
  return {
    items,
    delete: (key: string) => api('storage.r2.delete', { id, bucket, key }),
    close() {
      watch();
      items.close();
    },
  };
}

export function bucketObjectModel(id: string, bucket: string, key: string) {
  const object = resource<LookedAt>(async (signal) => {
    const place = { id, bucket, key };
    const found = await api('storage.r2.get', place, { signal });
    if (found.content_base64 !== null) return { ...found, beginning_base64: null };
    const range = `bytes=0-${BEGINNING_BYTES - 1}`;
    const { content_base64 } = await api('storage.r2.raw', { ...place, range }, { signal });
    return { ...found, beginning_base64: content_base64 };
  });
  return { object, close: object.close };
}
