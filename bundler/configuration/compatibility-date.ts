// The compatibility dates that workerd runs.
import { createRequire } from 'node:module';
import { BuildFailure } from '../failure.ts';

/** The newest that the workerd here knows. */
export const { compatibilityDate: newestCompatibilityDate } = createRequire(import.meta.url)('workerd') as {
  compatibilityDate: string;
};

/**
 * The compatibility date to run with. Generators write the day they run, and workerd's newest date is some days older.
 * @param where what the messages begin with
 * @throws {BuildFailure} for a day that is still to come
 */
export function supportedDate(asked: string, where: string, notes: string[]): string {
  const newest = newestCompatibilityDate;
  if (asked <= newest) return asked;
  if (asked > new Date().toISOString().slice(0, 10))
    throw new BuildFailure(
      `${where}compatibility_date ${asked} is in the future; set it to today or earlier`,
    );
  notes.push(`${where}compatibility_date ${asked} is newer than workerd here: taking ${newest}`);
  return newest;
}
