/** Maximum concurrent requests of one operation. */
const AT_ONCE = 16;

/** Does `work` for each item, `AT_ONCE` at a time. Waits for all items, then throws the first failure, if any. */
export async function fewAtOnce<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  let failure: { error: unknown } | null = null;
  const worker = async () => {
    for (const item of left)
      await work(item).catch((error: unknown) => {
        failure ??= { error };
      });
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  if (failure !== null) throw (failure as { error: unknown }).error;
}
