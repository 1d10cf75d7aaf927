// The log of an app: past lines, new lines, and a filter.
import { computed, effect, signal } from '@preact/signals';
import { api, type Failure } from '../../api.ts';
import { isRefusal, jittered, live, liveRows, RETRY_MS } from '../../live.ts';
import { queryOf } from '../../router.ts';
import { isWanted, type Level, type LogFilter, type LogLine, levels } from './log-line.ts';

/** Lines in one page of the list. */
const PAGE = 200;
/** Debounce of typing, in ms, before the server is asked. */
const DEBOUNCE_MS = 350;
/** Maximum lines that wait while the view is paused or scrolled up. Older ones are dropped and counted. */
const BUFFER_LINES = 2_000;

/** The filtered lines of an app's log, newest last. The filter is in the query: `q`, `level`, `trace`, `preview`. */
export function logsModel(app: string) {
  const { rows, dropped, add, addOlder, replace } = liveRows<LogLine>();
  const filter = computed<LogFilter>(() => {
    const level = queryOf('level');
    return {
      search: queryOf('q').trim().slice(0, 200),
      level: (levels as readonly string[]).includes(level) ? (level as Level) : '',
      trace: queryOf('trace'),
      preview: queryOf('preview'),
    };
  });
  /** The filter with which the shown lines were read; null before the first read. */
  const read = signal<LogFilter | null>(null);
  const isAsking = signal(false);
  const failure = signal<Failure | null>(null);
  const cursor = signal<string | null>(null);
  const buffer = signal<readonly LogLine[]>([]);
  const skipped = signal(0);
  const isPaused = signal(false);
  /** Whether the person has scrolled away from the newest line. */
  const isAway = signal(false);
  const isLive = signal(false);

  let asking: AbortController | null = null;
  let stop: (() => void) | null = null;
  let retry: ReturnType<typeof setTimeout> | undefined;

  /** Adds new lines to the view, or to the buffer while the view is paused or scrolled up. */
  const take = (lines: readonly LogLine[]) => {
    if (!isPaused.peek() && !isAway.peek()) return add(lines);
    const all = [...buffer.peek(), ...lines];
    skipped.value += Math.max(0, all.length - BUFFER_LINES);
    buffer.value = all.slice(-BUFFER_LINES);
  };
  const catchUp = () => {
    if (skipped.peek() > 0) dropped.value += skipped.peek() + rows.peek().length;
    if (buffer.peek().length > 0) add(buffer.peek());
    buffer.value = [];
    skipped.value = 0;
  };

  /** Reads the newest lines, then follows new ones. @param wait delay in ms before a retry, if the read fails */
  const ask = async (asked: LogFilter, wait = RETRY_MS.first) => {
    asking?.abort();
    stop?.();
    clearTimeout(retry);
    const own = new AbortController();
    asking = own;
    isAsking.value = true;
    try {
      const page = await api(
        'logs.list',
        { id: app, limit: PAGE, ...paramsOf(asked) },
        { signal: own.signal },
      );
      if (own.signal.aborted) return;
      replace(page.items.toReversed());
      cursor.value = page.next_cursor;
      read.value = asked;
      failure.value = null;
      buffer.value = [];
      skipped.value = 0;
      follow(asked, page.items[0]?.id);
    } catch (error) {
      if (own.signal.aborted) return;
      failure.value = error as Failure;
      isLive.value = false;
      if (isRefusal(error as Failure)) return;
      const next = Math.min(2 * wait, RETRY_MS.most);
      retry = setTimeout(() => void ask(asked, next), jittered(wait));
    } finally {
      if (asking === own) isAsking.value = false;
    }
  };
  /** @param after id of the newest loaded line; undefined when no line was loaded */
  const follow = (asked: LogFilter, after: string | undefined) => {
    const { trace_id: _, ...params } = paramsOf(asked);
    const own = asking!;
    let between: ReadonlySet<string> = new Set();
    /** Reads lines printed before the stream was opened. Only for an empty list, which has no id to resume from. */
    const readBetween = async () => {
      const page = await api(
        'logs.list',
        { id: app, limit: PAGE, ...paramsOf(asked) },
        { signal: own.signal },
      );
      const known = new Set([...rows.peek(), ...buffer.peek()].map(({ id }) => id));
      between = new Set(page.items.map(({ id }) => id));
      addOlder(page.items.filter(({ id }) => !known.has(id)).toReversed());
      cursor.value = page.next_cursor;
    };
    stop = live(
      'logs.stream',
      { id: app, ...params, ...(after && { last_event_id: after }) },
      {
        onItems: (lines) => take(lines.filter((line) => !between.has(line.id) && isWanted(line, asked))),
        onReset: (skipped) => {
          if (skipped === null) void ask(asked);
          else dropped.value += skipped;
        },
        onOpen: () => {
          isLive.value = true;
          // If this fails, the next connection tries again, unless a new line is shown by then.
          if (after === undefined && rows.peek().length === 0) readBetween().catch(() => {});
        },
        onLost: () => {
          isLive.value = false;
        },
        onRefused: (refusal) => {
          failure.value = refusal;
          isLive.value = false;
        },
      },
    );
  };

  let timer: ReturnType<typeof setTimeout> | undefined;
  let last = '';
  const watch = effect(() => {
    const asked = filter.value;
    const key = JSON.stringify(asked);
    if (key === last) return;
    const isFirst = last === '';
    last = key;
    clearTimeout(timer);
    clearTimeout(retry);
    timer = setTimeout(() => void ask(asked), isFirst ? 0 : DEBOUNCE_MS);
  });
  const shown = computed(() => {
    const wanted = filter.value;
    // The loaded lines may be of another preview, or of the app's own log: then shows none.
    return read.value?.preview === wanted.preview ? rows.value.filter((line) => isWanted(line, wanted)) : [];
  });
  return {
    filter,
    shown,
    dropped,
    failure,
    /** Whether the lines of the current filter are still being read. Until then, the view shows loaded lines that match. */
    isSearching: computed(
      () => isAsking.value || JSON.stringify(read.value) !== JSON.stringify(filter.value),
    ),
    isRead: computed(() => read.value !== null),
    isLive,
    isPaused,
    /** Number of new lines that are not shown yet. */
    waiting: computed(() => buffer.value.length + skipped.value),
    hasOlder: computed(() => cursor.value !== null && rows.value.length < BUFFER_LINES),
    retry: () => ask(filter.peek()),
    pause() {
      isPaused.value = true;
    },
    /** Ends a pause: shows the buffered lines, and new ones from now on. */
    goOn() {
      isPaused.value = false;
      isAway.value = false;
      catchUp();
    },
    /** Called when the person scrolls to the newest line, or away from it. */
    scrolled(toEnd: boolean) {
      isAway.value = !toEnd;
      if (toEnd && !isPaused.peek()) catchUp();
    },
    async readOlder() {
      const own = asking;
      const asked = { ...paramsOf(read.peek()!), cursor: cursor.peek()! };
      const page = await api('logs.list', { id: app, limit: PAGE, ...asked });
      // The list was read again meanwhile, perhaps with another filter.
      if (asking !== own) return;
      addOlder(page.items.toReversed());
      cursor.value = page.next_cursor;
    },
    close() {
      clearTimeout(timer);
      clearTimeout(retry);
      watch();
      asking?.abort();
      stop?.();
    },
  };
}

function paramsOf({ search, level, trace, preview }: LogFilter) {
  return {
    ...(preview !== '' && { preview }),
    ...(search !== '' && { search }),
    ...(level !== '' && { level }),
    ...(/^[0-9a-f]{32}$/.test(trace) && { trace_id: trace }),
  };
}
