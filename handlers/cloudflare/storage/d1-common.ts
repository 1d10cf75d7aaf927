// Code that all calls about D1 share.
import type { CallContext } from '../call.ts';
import { findKept, type Kept } from './kept.ts';

export const DATABASES = '/accounts/:account/d1/database';

/** Finds the database that the path names. Throws as `findKept` does. */
export function databaseOf(context: CallContext): Promise<Kept> {
  return findKept(context, 'databases', context.words.database!);
}

/**
 * Returns D1's `meta` of one statement.
 * @param duration for the last statement, the duration of the whole request in ms; for other statements, 0
 */
export function metaOf(figures: object, duration: number) {
  const timings = { sql_duration_ms: duration };
  return { served_by: 'cellar', served_by_primary: true, timings, duration, ...figures };
}
