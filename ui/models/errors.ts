// The errors of an app, in groups, and one group.
import { computed, effect, signal } from '@preact/signals';
import { api, type Result } from '../api.ts';
import { live, resource } from '../live.ts';
import { queryOf } from '../router.ts';
import { textOf } from './blob.ts';
import { around, type Frame, parseStack, type SourceLine } from './stack.ts';

export type GroupedError = Result<'errors.list'>['items'][number];
export type ErrorStatus = GroupedError['status'];
export type Occurrence = Result<'errors.get'>['occurrences'][number];

const PAGE = 50;
/** How often one group is read again while it is shown. */
const EVERY_MS = 15_000;
/** Frames of the project whose source is read. */
const SNIPPETS = 5;
export const statuses = ['open', 'resolved', 'ignored'] as const satisfies readonly ErrorStatus[];

/** How an error was noticed, in words. */
export const mechanisms: Record<string, string> = {
  uncaught: 'was thrown and not caught',
  unhandledrejection: 'a promise was rejected and nobody waited for it',
  waitUntil: 'was thrown in waitUntil',
  console: 'was printed with console.error',
  load: 'was thrown while the app loaded',
  crash: 'the process ended',
};

/** The groups in the status that the query names (`status`), the one that was seen last first. */
export function errorsModel(app: string) {
  const status = computed<ErrorStatus>(() => statuses.find((each) => each === queryOf('status')) ?? 'open');
  const cursor = signal<string | null>(null);
  const news = signal<ReadonlySet<string>>(new Set());
  const list = resource(async (signal) => {
    const read = await api('errors.list', { id: app, status: status.peek(), limit: PAGE }, { signal });
    cursor.value = read.next_cursor;
    return { status: status.peek(), items: read.items };
  });
  let stop: (() => void) | null = null;
  let before: ErrorStatus | null = null;
  const watch = effect(() => {
    const asked = status.value;
    if (before !== null) void list.refresh();
    before = asked;
    stop?.();
    stop = live(
      'errors.stream',
      { id: app, status: asked },
      {
        onItems(items) {
          const shown = list.data.peek();
          if (shown?.status !== asked) return;
          const known = new Set(shown.items.map(({ fingerprint }) => fingerprint));
          const added = items.map(({ fingerprint }) => fingerprint).filter((one) => !known.has(one));
          list.set({ status: asked, items: mergeErrors(shown.items, items, asked) });
          if (added.length > 0) news.value = new Set([...news.peek(), ...added]);
        },
        onReset: () => void list.refresh(),
      },
    );
  });
  return {
    status,
    list,
    news,
    hasMore: computed(() => cursor.value !== null),
    async readMore() {
      const read = await api('errors.list', {
        id: app,
        status: status.peek(),
        limit: PAGE,
        cursor: cursor.peek()!,
      });
      const shown = list.data.peek()!;
      list.set({ ...shown, items: mergeErrors(read.items, shown.items, shown.status) });
      cursor.value = read.next_cursor;
    },
    close() {
      watch();
      stop?.();
      list.close();
    },
  };
}

/** Puts what a stream told into a list: the one that was seen last first, and none that has another status by now. */
export function mergeErrors(
  list: readonly GroupedError[],
  told: readonly GroupedError[],
  status: ErrorStatus,
): GroupedError[] {
  const all = new Map([...list, ...told].map((group) => [group.fingerprint, group]));
  return [...all.values()]
    .filter((group) => group.status === status)
    .sort((a, b) => b.last_seen_at.localeCompare(a.last_seen_at));
}

/** A frame with the lines of the source around it; null while they are read, empty when they cannot be. */
export interface ShownFrame extends Frame {
  source: readonly SourceLine[] | null;
}

/** One group. The occurrence that is shown is in the query (`n`, 0 is the last one). */
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
