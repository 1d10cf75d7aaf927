// The compatibility dates that workerd runs.
import { createRequire } from 'node:module';
import { BuildFailure } from '../failure.ts';

/** The newest date that the installed workerd supports. */
export const { compatibilityDate: newestCompatibilityDate } = createRequire(import.meta.url)('workerd') as {
  compatibilityDate: string;
};

/**
 * Returns the compatibility date to run with: `asked`, or workerd's newest if that is earlier. Project generators write the
 * current day, which may be later than workerd's newest date.
 * @param where prefix of the messages
 * @throws {BuildFailure} for a date in the future
 */
export function supportedDate(asked: string, where: string, notes: string[]): string {
  const newest = newestCompatibilityDate;
  if (asked <= newest) return asked;
  if (asked > new Date().toISOString().slice(0, 10))
    throw new BuildFailure(
      `${where}compatibility_date ${asked} is in the future; set it to today or earlier`,
    );
  notes.push(
    `${where}compatibility_date ${asked} is newer than the workerd of this Cellar supports: the app uses ${newest}`,
  );
  return newest;
}
