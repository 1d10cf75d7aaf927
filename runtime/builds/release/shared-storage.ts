// Apps of one owner that name the same storage. On Cloudflare they would share it. Here each app has its own.
import type { StorageNames } from '../../storage/names.ts';

/** Kinds of storage. `isUnique`: whether a name is unique in a Cloudflare account, where apps that use it share the storage. */
const KINDS = [
  {
    kind: 'databases',
    of: 'd1_databases',
    what: 'database',
    isUnique: (key: string) => /^[0-9a-f-]{36}$/.test(key),
  },
  {
    kind: 'namespaces',
    of: 'kv_namespaces',
    what: 'namespace',
    isUnique: (key: string) => /^[0-9a-f]{32}$/.test(key),
  },
  { kind: 'buckets', of: 'r2_buckets', what: 'bucket', isUnique: () => true },
  { kind: 'vectorIndexes', of: 'vectorize', what: 'index', isUnique: () => true },
] as const;

/** Returns a warning for the first storage that an app and another app of the same owner name; null without one. */
export function sharedStorageWarning(
  names: Partial<StorageNames>,
  other: { slug: string; names: Partial<StorageNames> },
): string | null {
  const { slug } = other;
  for (const { kind, of, what, isUnique } of KINDS) {
    const known = other.names[kind] ?? {};
    const key = Object.keys(names[kind] ?? {}).find((each) => isUnique(each) && Object.hasOwn(known, each));
    if (key !== undefined)
      return `${of}: the app ${slug} names ${key} too, but each app has a ${what} of its own here: let one of them bind it, and the other call it by a service binding`;
  }
  return null;
}
