// Shared by all calls of D1.
import type { CallContext } from '../call.ts';
import { findKept, type Kept } from './kept.ts';

export const DATABASES = '/accounts/:account/d1/database';

/** The database that the path names. */
export function databaseOf(context: CallContext): Promise<Kept> {
  return findKept(context, 'databases', context.words.database!);
}

/** Returns D1's `meta` of one statement. @param duration of the whole request in ms, given to its last statement; else 0 */
export function metaOf(figures: object, duration: number) {
  const timings = { sql_duration_ms: duration };
  return { served_by: 'cellar', served_by_primary: true, timings, duration, ...figures };
}
