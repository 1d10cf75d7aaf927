// The grouped errors of an app, and a single group.
import { computed, effect, signal } from '@preact/signals';
import { api, type Result } from '../../api.ts';
import { live, resource } from '../../live.ts';
import { queryOf } from '../../router.ts';
import { pages, streamed } from '../pages.ts';
import { textOf } from '../source/blob.ts';
import { around, type Frame, parseStack, type SourceLine } from './stack.ts';

export type GroupedError = Result<'errors.list'>['items'][number];
export type ErrorStatus = GroupedError['status'];
export type Occurrence = Result<'errors.get'>['occurrences'][number];

const PAGE = 50;
/** Polling interval of a single group, in ms. */
const EVERY_MS = 15_000;
/** Maximum stack frames of the project whose source is read. */
const SNIPPETS = 5;
export const statuses = ['open', 'resolved', 'ignored'] as const satisfies readonly ErrorStatus[];

/** How errors reached Cellar, in words. */
export const mechanisms: Record<string, string> = {
  uncaught: 'was thrown and not caught',
  unhandledrejection: 'was an unhandled promise rejection',
  waitUntil: 'was thrown in waitUntil',
  console: 'was printed with console.error',
  load: 'was thrown while the app loaded',
  crash: 'ended the process',
};

/** Returns the status that a query parameter names; `open` for an unknown one. */
export function statusOf(named: string): ErrorStatus {
  return statuses.find((status) => status === named) ?? 'open';
}

/** The groups with a status, the one seen last first, with live updates. */
export function errorsModel(app: string, status: ErrorStatus) {
  const asked = { id: app, status };
  const list = pages(
    (cursor, signal) => api('errors.list', { ...asked, limit: PAGE, cursor }, { signal }),
    ({ fingerprint }: GroupedError) => fingerprint,
    { grows: true },
  );
  const merge = (before: readonly GroupedError[], received: readonly GroupedError[]) =>
    mergeErrors(before, received, status);
  return streamed(list, merge, (receiver) => live('errors.stream', asked, receiver));
}

/** Merges streamed groups into a list, the one seen last first. Drops groups with another status. */
export function mergeErrors(
  list: readonly GroupedError[],
  received: readonly GroupedError[],
  status: ErrorStatus,
): GroupedError[] {
  const all = new Map([...list, ...received].map((group) => [group.fingerprint, group]));
  return [...all.values()]
    .filter((group) => group.status === status)
    .sort((a, b) => b.last_seen_at.localeCompare(a.last_seen_at));
}

/** A stack frame with its source lines. */
export interface ShownFrame extends Frame {
  /** Null while the lines are read; empty when they cannot be read, and for all but the first `SNIPPETS` project frames. */
  source: readonly SourceLine[] | null;
}

/** One group. The query has the index of the shown occurrence (`n`; 0 is the newest). */
export function errorModel(app: string, fingerprint: string) {
  const group = resource((signal) => api('errors.get', { id: app, fingerprint }, { signal }), {
    everyMs: EVERY_MS,
  });
  const index = computed(() => {
    const last = (group.data.value?.occurrences.length ?? 1) - 1;
    return Math.min(Math.max(0, Number(queryOf('n', '0')) || 0), Math.max(0, last));
  });
  const occurrence = computed<Occurrence | null>(() => group.data.value?.occurrences[index.value] ?? null);
  const frames = signal<readonly ShownFrame[]>([]);
  const files = new Map<string, Promise<string | null>>();
  const commits = new Map<string, Promise<string | null>>();

  const once = <Value>(kept: Map<string, Promise<Value>>, key: string, read: () => Promise<Value>) => {
    let found = kept.get(key);
    if (found === undefined) {
      found = read();
      kept.set(key, found);
    }
    return found;
  };
  const commitOf = (release: string) =>
    once(commits, release, () =>
      api('deploys.get', { id: app, deploy_id: release }).then(
        ({ sha }) => sha,
        () => null,
      ),
    );
  const fileAt = (sha: string, path: string) =>
    once(files, `${sha} ${path}`, () =>
      api('source.blob', { id: app, path, ref: sha }).then(textOf, () => null),
    );

  const fill = async (of: readonly ShownFrame[], release: string | null) => {
    const sha = release === null ? null : await commitOf(release);
    let left = SNIPPETS;
    const filled = await Promise.all(
      of.map(async (frame) => {
        if (frame.path === null || sha === null || left-- <= 0) return { ...frame, source: [] };
        const text = await fileAt(sha, frame.path);
        return { ...frame, source: text === null ? [] : around(text, frame.line) };
      }),
    );
    if (frames.peek() === of) frames.value = filled;
  };
  let shown = '';
  const watch = effect(() => {
    const { stack = null, release = null } = occurrence.value ?? {};
    const key = `${release} ${stack}`;
    if (key === shown) return;
    shown = key;
    frames.value = parseStack(stack ?? '').map((frame) => ({ ...frame, source: null }));
    void fill(frames.peek(), release);
  });
  return {
    group,
    index,
    occurrence,
    frames,
    async setStatus(status: ErrorStatus) {
      const changed = await api('errors.set_status', { id: app, fingerprint, status });
      group.set({ ...group.data.peek()!, ...changed });
    },
    close() {
      watch();
      group.close();
    },
  };
}
