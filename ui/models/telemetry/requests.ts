// The requests of an app, filtered.
import { computed } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { pages } from '../pages.ts';

export type Request = Result<'requests.list'>['items'][number];

const PAGE = 50;
/** Polling interval of the list, in ms. */
const EVERY_MS = 5_000;

export const statuses = [
  ['', 'All'],
  ['2xx', '2xx'],
  ['3xx', '3xx'],
  ['4xx', '4xx'],
  ['5xx', '5xx'],
] as const;
export const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
export const durations = [
  ['', 'Any duration'],
  ['100', '100 ms or more'],
  ['500', '500 ms or more'],
  ['1000', '1 s or more'],
  ['5000', '5 s or more'],
] as const;
export const starts = [
  ['', 'Any start'],
  ['cold', 'Cold starts'],
  ['warm', 'Warm'],
] as const;

/** A filter, as the query has it. An empty value matches any request. */
export interface RequestFilter {
  path: string;
  method: string;
  status: string;
  slow: string;
  start: string;
}

/** Returns the API's parameters for a filter. Leaves out unknown values. */
export function paramsOf({ path, method, status, slow, start }: RequestFilter) {
  const has = (options: readonly (readonly [string, string])[], value: string) =>
    value !== '' && options.some(([each]) => each === value);
  return {
    ...(path !== '' && { path: path.slice(0, 200) }),
    ...((methods as readonly string[]).includes(method) && { method }),
    ...(has(statuses, status) && { status }),
    ...(has(durations, slow) && { min_ms: Number(slow) }),
    ...(has(starts, start) && { cell_start: start as 'cold' | 'warm' }),
  };
}

/** The requests that a filter matches, newest first. */
export function requestsModel(app: string, filter: RequestFilter) {
  const asked = { id: app, limit: PAGE, ...paramsOf(filter) };
  const list = pages(
    (cursor, signal) => api('requests.list', { ...asked, cursor }, { signal }),
    ({ span_id }: Request) => span_id,
    { everyMs: EVERY_MS, grows: true },
  );
  return {
    list,
    /** Whether some requests were not recorded, because there were too many. */
    isSample: computed(() => list.items.value.some(({ skipped }) => skipped > 0)),
    close: list.close,
  };
}
