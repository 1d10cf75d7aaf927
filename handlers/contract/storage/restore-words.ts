// Words with which the command line and the control UI describe the changes of a restore. Does not import zod, because the
// page of the control UI loads this file.
const KINDS = {
  database: 'database',
  namespace: 'KV namespace',
  class: 'objects of',
  buckets: 'R2 buckets and vector indexes',
  other: 'queues, timers and so on',
} as const;

/** Returns the name of a storage, with its kind. */
export function storageName({ kind, name }: { kind: keyof typeof KINDS; name: string }): string {
  return `${KINDS[kind]} ${name}`.trim();
}

/** Returns how many files change, such as `2 replaced, 1 back`; an empty text for none. */
export function changedFiles(change: { replaced: number; removed: number; returned: number }): string {
  const counts = [
    [change.replaced, 'replaced'],
    [change.removed, 'removed'],
    [change.returned, 'back'],
  ] as const;
  return counts
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}`)
    .join(', ');
}
