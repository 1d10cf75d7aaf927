// Telemetry as the host's thread sees it: whatever happens is put into batches for a thread of its own, which parses,
// groups and keeps it. Nothing here waits, and what finds no room is dropped and counted.
import { Worker } from 'node:worker_threads';
import type { RequestRecord } from '../edge/record.ts';
import { logRarely } from '../log.ts';
import { countLines } from '../machine/lines.ts';
import type { OutputPipe, OutputSink } from '../machine/output-sink.ts';
import type {
  AskName,
  Asks,
  Batch,
  Failure,
  FollowKind,
  FromThread,
  Kind,
  OpenGroup,
  Said,
  ThreadOptions,
  ThreadStats,
  ToThread,
  Usage,
} from './protocol.ts';
import { Questions, TelemetryError } from './questions.ts';
import { handedBytes, RequestLines, requestLine } from './request-lines.ts';
import { KINDS, MOST, none, UnderWay } from './under-way.ts';

/** How long something may wait for its batch, in ms. */
const BATCH_MS = 100;
/** A batch with so much in it does not wait, in characters and bytes. */
const BATCH_SIZE = 64 * 1024;
/** JavaScript objects that the thread may have, in MiB. */
const MEMORY_MB = 256;
/** A thread that has kept nothing of a batch for so long hangs, in ms: it is ended, and another one started. */
const HANGS_MS = 30_000;
/** Ends of processes that wait for the next batch. */
const FAILURES_MAX = 1_000;
const CLOSE_DEADLINE_MS = 2_000;
const RESTART_MIN_MS = 500;
const RESTART_MAX_MS = 30_000;
/** A thread that has lived so long did not die of its start, in ms. */
const SETTLED_MS = 60_000;

interface Following {
  appId: string;
  kind: FollowKind;
  params: () => unknown;
  onItems: (items: unknown[]) => void;
}

/** Takes what happens, at once and in any amount. */
export class Telemetry {
  readonly #options: ThreadOptions;
  readonly #onErrors: (groups: OpenGroup[]) => void;
  /** Slugs of apps, as others read of them. */
  readonly #names = new Map<string, string>();
  #thread: Worker | null = null;
  #startedAt = 0;
  #restartMs = RESTART_MIN_MS;
  #restart: NodeJS.Timeout | null = null;
  #closing = false;
  #onClosed: (() => void) | null = null;
  #lastId = 0;

  readonly #requests = new RequestLines();
  #usage = new Map<string, Required<Usage>>();
  #output: Batch['output'] = [];
  #said: Batch['said'] = [];
  #failures: Batch['failures'] = [];
  /** Of what waits for the next batch. */
  #sizes = none();
  #counts = none();
  #timer: NodeJS.Timeout | null = null;

  #seq = 0;
  readonly #underWay = new UnderWay();
  /** Since the host's start, for want of room or because the thread ended: requests, pieces of output, lines. */
  readonly #dropped = none();
  #restarts = 0;
  readonly #questions = new Questions();
  readonly #following = new Map<number, Following>();

  /** @param onErrors is told of open groups of errors that have one more, of each at most once a minute */
  constructor(options: ThreadOptions, onErrors: (groups: OpenGroup[]) => void = () => {}) {
    this.#options = options;
    this.#onErrors = onErrors;
  }

  /** Starts the thread. What came before waits for it. */
  start(): void {
    if (this.#thread !== null || this.#closing) return;
    this.#startedAt = performance.now();
    const thread = new Worker(new URL('./thread.ts', import.meta.url), {
      // Nothing of the host's environment or arguments.
      env: {},
      argv: [],
      execArgv: [],
      workerData: this.#options,
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    thread.unref();
    this.#thread = thread;
    thread.on('message', (message: FromThread) => this.#hear(message));
    thread.on('error', (error: Error) => this.#lost(thread, error.message));
    thread.on('exit', () => this.#lost(thread, 'it ended'));
    this.#send({ type: 'names', names: [...this.#names] });
    for (const id of this.#following.keys()) this.#sendFollow(id);
    this.#flushSoon();
  }

  /** Takes a request of an app that is over. */
  record(record: RequestRecord): void {
    const line = requestLine(record);
    if (!this.#takes('requests', handedBytes(line))) return;
    this.#requests.add(record, line);
    this.#flushSoon();
  }

  /** Takes what one process of an app's release prints, piece by piece. What it is given is copied. */
  outputOf(appId: string, deployId: string): OutputSink {
    const pipes = { stdout: ++this.#lastId, stderr: ++this.#lastId };
    const lost: Record<OutputPipe, number | null> = { stdout: null, stderr: null };
    const take = (stream: OutputPipe, piece: Buffer, dropped: number | null, isLast: boolean) => {
      if (dropped !== null) lost[stream] = (lost[stream] ?? 0) + dropped;
      if (!this.#takes('output', piece.length)) {
        lost[stream] = (lost[stream] ?? 0) + countLines(piece);
        return;
      }
      // A copy of the piece alone: its memory may be a part of a much larger one.
      const bytes = new Uint8Array(piece);
      const pipe = pipes[stream];
      this.#output.push({
        appId,
        deployId,
        at: Date.now(),
        pipe,
        stream,
        bytes,
        dropped: lost[stream],
        isLast,
      });
      lost[stream] = null;
      this.#flushSoon();
    };
    const isCrowded = () => this.#waiting().output > MOST.output / 4;
    return {
      get isCrowded() {
        return isCrowded();
      },
      write: (stream, piece, dropped) => take(stream, piece, dropped, false),
      end: (stream) => take(stream, Buffer.alloc(0), null, true),
    };
  }

  /** Takes a line of the host's own for an app's log. */
  say(appId: string, said: Said): void {
    if (!this.#takes('said', said.text.length)) return;
    this.#said.push({ appId, ...said });
    this.#flushSoon();
  }

  /** Takes word of a release that did not start, or of a process that ended by itself. */
  failed(appId: string, failure: Failure): void {
    // They are rare: a process is started again only after a while.
    if (this.#failures.length >= FAILURES_MAX) this.#failures.shift();
    this.#failures.push({ appId, ...failure });
    this.#flushSoon();
  }

  /** Takes what an app's process has used since the last call. */
  usage(appId: string, { cpuMs = 0, memoryBytes = 0, wakes = 0 }: Usage): void {
    const kept = this.#usage.get(appId);
    if (kept === undefined) this.#usage.set(appId, { cpuMs, memoryBytes, wakes });
    else {
      kept.cpuMs += cpuMs;
      kept.memoryBytes = Math.max(kept.memoryBytes, memoryBytes);
      kept.wakes += wakes;
    }
    this.#flushSoon();
  }

  /** Takes an app's slug, when there is a new app or a new slug. */
  name(appId: string, slug: string): void {
    if (this.#names.get(appId) === slug) return;
    this.#names.set(appId, slug);
    this.#send({ type: 'names', names: [[appId, slug]] });
  }

  /** Has the thread remove all that it keeps of an app. */
  forget(appId: string): void {
    this.#names.delete(appId);
    this.#flush();
    this.#send({ type: 'forget', appId });
  }

  /** Has the thread remove all that it keeps of other apps: of such as were deleted while it was not there. */
  keepOnly(appIds: string[]): void {
    this.#send({ type: 'keep', appIds });
  }

  /**
   * Asks the thread. What was handed over before is counted in the answer.
   * @throws {TelemetryError} when there is no answer in time, and with a code when the question is wrong
   */
  ask<Name extends AskName>(name: Name, params: Asks[Name]['params']): Promise<Asks[Name]['answer']> {
    if (this.#thread === null || this.#questions.isFull) {
      return Promise.reject(new TelemetryError(null, 'telemetry cannot be read just now; try again'));
    }
    this.#flush();
    const id = ++this.#lastId;
    const answer = this.#questions.add(id, name);
    this.#send({ type: 'ask', id, name, params });
    return answer;
  }

  /** Figures of telemetry itself; `thread` is null while it does not answer. */
  async stats(): Promise<{
    dropped: Record<string, number>;
    waiting: Record<Kind, number>;
    restarts: number;
    thread: ThreadStats | null;
  }> {
    const thread = await this.ask('stats', {}).catch(() => null);
    return { dropped: { ...this.#dropped }, waiting: this.#waiting(), restarts: this.#restarts, thread };
  }

  /**
   * Has `onItems` told of what is new of an app, a few items at a time. It is told on when the thread is started again. Call
   * what it returns to end that.
   * @param params what is wanted, as the part of the thread has it; asked each time the thread begins
   */
  follow(
    appId: string,
    kind: FollowKind,
    params: () => unknown,
    onItems: (items: unknown[]) => void,
  ): () => void {
    this.#flush();
    const id = ++this.#lastId;
    this.#following.set(id, { appId, kind, params, onItems });
    this.#sendFollow(id);
    return () => {
      if (this.#following.delete(id)) this.#send({ type: 'unfollow', id });
    };
  }

  /** Has all that was taken written, and ends the thread. Gives that up after 2 s. */
  async close(): Promise<void> {
    if (this.#restart !== null) clearTimeout(this.#restart);
    const thread = this.#thread;
    this.#flush();
    this.#closing = true;
    if (thread === null) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onClosed = resolve;
    const deadline = setTimeout(resolve, CLOSE_DEADLINE_MS);
    this.#send({ type: 'close' });
    await promise;
    clearTimeout(deadline);
    this.#thread = null;
    await thread.terminate();
    this.#questions.refuseAll('the host is stopping');
  }

  /** How much is not written yet, in characters and bytes. */
  #waiting(): Record<Kind, number> {
    const waiting = none();
    for (const kind of KINDS) waiting[kind] = this.#sizes[kind] + this.#underWay.sizes[kind];
    return waiting;
  }

  /** Whether there is room for so much more of a kind. Counts it as dropped if not. */
  #takes(kind: Kind, size: number): boolean {
    if (this.#sizes[kind] + this.#underWay.sizes[kind] + size > MOST[kind]) {
      this.#dropped[kind]++;
      return false;
    }
    this.#sizes[kind] += size;
    this.#counts[kind]++;
    return true;
  }

  #flushSoon(): void {
    const { requests, output, said } = this.#sizes;
    if (requests + output + said >= BATCH_SIZE) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), BATCH_MS).unref();
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#thread === null) return;
    if (
      this.#requests.isEmpty &&
      this.#usage.size + this.#output.length + this.#said.length + this.#failures.length === 0
    )
      return;
    const at = Date.now();
    const batch: Batch = {
      seq: ++this.#seq,
      requests: this.#requests.take(),
      usage: [...this.#usage].map(([appId, usage]) => ({ appId, at, ...usage })),
      output: this.#output,
      said: this.#said,
      failures: this.#failures,
    };
    this.#underWay.add(batch.seq, this.#sizes, this.#counts);
    this.#usage = new Map();
    this.#output = [];
    this.#said = [];
    this.#failures = [];
    this.#sizes = none();
    this.#counts = none();
    this.#send(
      { type: 'batch', batch },
      batch.output.map(({ bytes }) => bytes.buffer as ArrayBuffer),
    );
    if (this.#underWay.ageMs > HANGS_MS) this.#lost(this.#thread, 'it hangs');
  }

  #sendFollow(id: number): void {
    const { appId, kind, params } = this.#following.get(id)!;
    this.#send({ type: 'follow', id, appId, kind, params: params() });
  }

  #send(message: ToThread, transfer: ArrayBuffer[] = []): void {
    this.#thread?.postMessage(message, transfer);
  }

  #hear(message: FromThread): void {
    if (message.type === 'kept') this.#underWay.kept(message.seq);
    else if (message.type === 'answer') this.#questions.answer(message.id, message.answer);
    else if (message.type === 'refusal') {
      this.#questions.refuse(message.id, message);
    } else if (message.type === 'errors') this.#onErrors(message.groups);
    else if (message.type === 'push') this.#following.get(message.id)?.onItems(message.items);
    else if (message.type === 'trouble')
      logRarely('error', `telemetry: ${message.message}`, { error: message.error });
    else this.#onClosed?.();
  }

  /** The thread has gone, or must: what it had not written is lost. */
  #lost(thread: Worker, why: string): void {
    if (this.#thread !== thread) return;
    this.#thread = null;
    void thread.terminate();
    this.#onClosed?.();
    const lost = this.#underWay.giveUp();
    for (const kind of KINDS) this.#dropped[kind] += lost[kind];
    this.#questions.refuseAll('the thread of telemetry ended');
    if (this.#closing) return;
    if (performance.now() - this.#startedAt > SETTLED_MS) this.#restartMs = RESTART_MIN_MS;
    logRarely('error', 'the thread of telemetry ended; it is started again', {
      error: why,
      ...lost,
      retry_ms: this.#restartMs,
    });
    this.#restarts++;
    this.#restart = setTimeout(() => this.start(), this.#restartMs).unref();
    this.#restartMs = Math.min(2 * this.#restartMs, RESTART_MAX_MS);
  }
}
