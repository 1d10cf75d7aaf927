// Bindings that share storage because their ids are equal, such as placeholder ids of a template.
import type { WranglerConfig } from '../configuration/wrangler-config.ts';

/** Returns a warning for each id that several KV namespaces have, and for each that several D1 databases have. */
export function sharedStorage(file: string, { kv_namespaces, d1_databases }: WranglerConfig): string[] {
  return [
    ...sharedIds(kv_namespaces, 'KV namespace'),
    ...sharedIds(
      d1_databases.map(({ binding, database_id: id }) => ({ binding, id })),
      'D1 database',
    ),
  ].map((text) => `${file}: ${text}`);
}

function sharedIds(bound: { binding: string; id?: string | undefined }[], what: string): string[] {
  const groups = Map.groupBy(bound, ({ id }) => id);
  return [...groups].flatMap(([id, group]) =>
    id && group.length > 1
      ? `${group.map(({ binding }) => binding).join(', ')} are one ${what}, because their ids are equal: ${id}. For separate ones, change the ids or leave them out`
      : [],
  );
}
