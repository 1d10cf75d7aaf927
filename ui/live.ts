// Keeps views up to date: reconnecting streams, bounded lists, and polling.
import { computed, type ReadonlySignal, signal } from '@preact/signals';
import { type Failure, lostSince, type OperationName, type Params, type Result, stream } from './api.ts';
import { isEnded } from './session.ts';

/** Interval at which new events are shown, in ms. */
const FLUSH_MS = 250;
/** Delays between retries, in ms. Each is twice the one before. */
export const RETRY_MS = { first: 1_000, most: 30_000 };
/** Maximum rows in a live list. */
export const ROWS = 2_000;

/** Returns whether the API refuses a call, so that a retry fails too: 4xx except `rate_limited` and 401. */
export function isRefusal({ status, code }: Failure): boolean {
  // After `signed_out`, the screen may stay, and the person may sign in again.
  const isRetryable = code === 'rate_limited' || code === 'signed_out';
  return status >= 400 && status < 500 && !isRetryable;
}

/** Returns `ms` changed at random by up to a quarter, so that pages do not retry at the same moment. */
export function jittered(ms: number): number {
  return ms * (0.75 + Math.random() / 2);
}

interface Listener<Data> {
  /** Called at most every 250 ms with the new items, oldest first. */
  onItems(items: Data[]): void;
  /**
   * Called when events are missing, so the list must be read again.
   * @param skipped number of events dropped because this page read too slowly; null when the number is unknown
   */
  onReset?(skipped: number | null): void;
  onOpen?(): void;
  onLost?(): void;
  /** Called once when the API refuses the stream, which then ends. Default: `onReset(null)`. */
  onRefused?(failure: Failure): void;
}

/**
 * Follows a stream until the returned function is called. Reconnects, and resumes after the last event. Pauses while the
 * page is hidden: over HTTP/1.1, all tabs together have only six connections to one server.
 */
export function live<Name extends OperationName>(
  name: Name,
  params: Params<Name>,
  listener: Listener<Result<Name>>,
): () => void {
  // A caller that has read a list resumes after its newest entry.
  let last: string | null = (params as { last_event_id?: string }).last_event_id ?? null;
  let waiting: Result<Name>[] = [];
  let retry: ReturnType<typeof setTimeout> | undefined;
  let flush: ReturnType<typeof setTimeout> | undefined;
  let open: AbortController | null = null;

  const show = () => {
    flush = undefined;
    const items = waiting;
    waiting = [];
    if (items.length > 0) listener.onItems(items);
  };
  const follow = async () => {
    const own = new AbortController();
    open = own;
    let wait = RETRY_MS.first;
    let wasLost = false;
    while (!own.signal.aborted) {
      try {
        const from = last === null ? {} : { last_event_id: last };
        for await (const events of stream(name, { ...params, ...from }, own.signal)) {
          wait = RETRY_MS.first;
          if (events.length === 0) {
            listener.onOpen?.();
            // Without an id the server does not know which events this page has missed.
            if (wasLost && last === null) listener.onReset?.(null);
            wasLost = false;
          }
          for (const event of events) {
            if (event.reset) listener.onReset?.(event.skipped);
            else {
              last = event.id ?? last;
              waiting.push(event.data);
            }
          }
          if (waiting.length > 0) flush ??= setTimeout(show, FLUSH_MS);
        }
      } catch (error) {
        if (own.signal.aborted) return;
        if (isRefusal(error as Failure)) {
          // Default: the list is read again. The API refuses that too, and the view shows the reason.
          if (listener.onRefused) listener.onRefused(error as Failure);
          else listener.onReset?.(null);
          return;
        }
      }
      if (own.signal.aborted) return;
      listener.onLost?.();
      wasLost = true;
      await new Promise<void>((resolve) => {
        own.signal.addEventListener('abort', () => resolve(), { once: true });
        retry = setTimeout(resolve, jittered(wait));
      });
      wait = Math.min(wait * 2, RETRY_MS.most);
    }
  };
  const rest = () => {
    open?.abort();
    open = null;
    clearTimeout(retry);
  };
  const stop = whileVisible(() => void follow(), rest);
  return () => {
    stop();
    clearTimeout(flush);
  };
}

/** Without input for this time, in ms, the page counts as unattended. */
const UNATTENDED_MS = 30_000;
/** Factor for the polling interval of an unattended page. */
const UNATTENDED_FACTOR = 6;
const TOUCHES = ['pointermove', 'pointerdown', 'keydown', 'wheel', 'scroll', 'focus'] as const;

let touchedAt = performance.now();
/** Counts how often input ended an unattended time. */
const returns = signal(0);
const isUnattended = () => performance.now() - touchedAt > UNATTENDED_MS;

if (typeof window !== 'undefined') {
  const touch = () => {
    const wasUnattended = isUnattended();
    touchedAt = performance.now();
    if (wasUnattended) returns.value++;
  };
  for (const name of TOUCHES) addEventListener(name, touch, { passive: true, capture: true });
}

/**
 * Runs `begin` now if the page is visible, and whenever it becomes visible. Runs `end` when it becomes hidden.
 * @returns a function that runs `end` for the last time
 */
export function whileVisible(begin: () => void, end: () => void): () => void {
  const change = () => (document.visibilityState === 'hidden' ? end() : begin());
  document.addEventListener('visibilitychange', change);
  if (document.visibilityState !== 'hidden') begin();
  return () => {
    document.removeEventListener('visibilitychange', change);
    end();
  };
}

/** The newest rows of a live list, newest last, and the number of older rows that were dropped. */
export function liveRows<Row>(keep = ROWS) {
  const rows = signal<readonly Row[]>([]);
  const dropped = signal(0);
  return {
    rows,
    dropped,
    add(more: readonly Row[]) {
      const all = [...rows.peek(), ...more];
      const over = Math.max(0, all.length - keep);
      if (over > 0) dropped.value += over;
      rows.value = over > 0 ? all.slice(over) : all;
    },
    /** Prepends older rows. Above the limit, drops the oldest of them. */
    addOlder(older: readonly Row[]) {
      const room = keep - rows.peek().length;
      rows.value = [...older.slice(Math.max(0, older.length - room)), ...rows.peek()];
    },
    replace(all: readonly Row[]) {
      rows.value = all.slice(-keep);
      dropped.value = 0;
    },
  };
}

/** Whether reads fail now: the server does not respond, or the person must sign in again. */
const isAway = computed(() => lostSince.value !== null || isEnded.value);

/** Data read from the server, for a view. */
export interface Resource<Data> {
  /** The data read last; null before. It stays during a new read, and when that read fails. */
  data: ReadonlySignal<Data | null>;
  failure: ReadonlySignal<Failure | null>;
  /** Reads the data again. Aborts a read in progress. Never rejects: an error sets `failure`. */
  refresh(): Promise<void>;
  /** Replaces the data, such as by the result of a change. */
  set(data: Data): void;
  close(): void;
}

/**
 * Reads data while the page is visible: now, every `everyMs`, when the page becomes visible again, and after a reconnect
 * or a new sign-in.
 * Retries at least every 5 s while the server does not respond. An unattended page polls at a sixth of the rate, and at
 * once when a person returns. Must be closed with its view: `useModel` does that.
 */
export function resource<Data>(
  load: (signal: AbortSignal) => Promise<Data>,
  { everyMs }: { everyMs?: number } = {},
): Resource<Data> {
  const data = signal<Data | null>(null);
  const failure = signal<Failure | null>(null);
  let running: AbortController | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let closed = false;

  const refresh = async () => {
    running?.abort();
    clearTimeout(timer);
    const own = new AbortController();
    running = own;
    try {
      const read = await load(own.signal);
      if (own.signal.aborted) return;
      data.value = read;
      failure.value = null;
    } catch (error) {
      if (own.signal.aborted) return;
      failure.value = error as Failure;
    }
    const lost = failure.value?.code === 'offline' || (failure.value?.status ?? 0) >= 502;
    const usual = everyMs && (isUnattended() ? UNATTENDED_FACTOR * everyMs : everyMs);
    const next = lost ? Math.min(everyMs ?? 5_000, 5_000) : usual;
    if (next !== undefined && !closed) timer = setTimeout(refresh, next);
  };
  const stop = whileVisible(
    () => void refresh(),
    () => {
      running?.abort();
      clearTimeout(timer);
    },
  );
  const unsubscribe = isAway.subscribe((isAway) => {
    const { code } = failure.peek() ?? {};
    if (!isAway && (code === 'offline' || code === 'signed_out') && !closed) void refresh();
  });
  let seen = returns.peek();
  const watch = returns.subscribe((times) => {
    if (times !== seen && everyMs !== undefined && !closed) void refresh();
    seen = times;
  });
  return {
    data,
    failure,
    refresh,
    set(next) {
      data.value = next;
    },
    close() {
      closed = true;
      unsubscribe();
      watch();
      stop();
    },
  };
}
