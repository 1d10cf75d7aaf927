// Telemetry on the host's thread: sends events in batches to a separate thread, which parses, groups and stores them. Taking
// an event never waits; items over the limits are dropped and counted.
import type { AppReport } from '../../handlers/contract/host/host-calls.ts';
import type { RequestRecord } from '../edge/log/record.ts';
import { logRarely } from '../log.ts';
import { countLines } from '../processes/lines.ts';
import type { OutputPipe, OutputSink } from '../processes/output-sink.ts';
import type { KnownHosts } from './copies/source.ts';
import { RestartedThread } from './kept-thread.ts';
import { NextBatch } from './next-batch.ts';
import type {
  AskName,
  Asks,
  Failure,
  FollowKind,
  FromThread,
  Kind,
  OpenGroup,
  Said,
  ThreadOptions,
  ToThread,
  Usage,
} from './protocol.ts';
import { Questions, TelemetryError } from './questions.ts';
import { encodedBytes, requestLine } from './traces/request-lines.ts';
import { KINDS, none, PENDING_LIMITS, UnderWay } from './under-way.ts';

/** Maximum time that an item waits before its batch is sent, in ms, while the thread runs. */
const BATCH_MS = 100;
/** A batch of this size is sent at once: bytes of requests and output, plus characters of the host's lines. */
const BATCH_SIZE = 64 * 1024;
/** A thread that has not confirmed a batch for this long, in ms, counts as hung and is restarted. */
const HANGS_MS = 30_000;

interface Following {
  appId: string;
  kind: FollowKind;
  params: () => unknown;
  onItems: (items: unknown[]) => void;
}

export interface TelemetryListeners {
  /** Called with open error groups that have a new error, at most once a minute for each group. */
  onErrors?: (groups: OpenGroup[]) => void;
  /** Called with apps' reports through their binding to `cellar`, and the number of dropped reports by app. */
  onReports?: (reports: AppReport[], dropped: [appId: string, count: number][]) => void;
}

/** Takes events without waiting. Drops those over the limits. */
export class Telemetry {
  readonly #thread: RestartedThread;
  readonly #listeners: TelemetryListeners;
  /** Slugs of apps by id, for exports. */
  readonly #names = new Map<string, string>();
  #lastId = 0;

  /** The message that starts the copies. Each new thread gets it. Null until the bucket may be used. */
  #copying: ToThread | null = null;

  readonly #next = new NextBatch();
  #timer: NodeJS.Timeout | null = null;

  #seq = 0;
  readonly #underWay = new UnderWay();
  /** Number of items of each kind that were dropped over the limits, or lost with an ended thread. */
  readonly #dropped = none();
  /** Number of items that the running thread has dropped, by kind. */
  #droppedByThread: Record<string, number> = {};
  /** Number of items that earlier threads dropped, by kind. */
  #droppedByThreads: Record<string, number> = {};
  readonly #questions = new Questions();
  readonly #following = new Map<number, Following>();

  constructor(options: ThreadOptions, listeners: TelemetryListeners = {}) {
    this.#listeners = listeners;
    this.#thread = new RestartedThread(options, {
      onStart: () => this.#begin(),
      onMessage: (message) => this.#hear(message),
      onLost: () => this.#lost(),
    });
  }

  /** Starts the thread. Earlier items are queued for it. */
  start(): void {
    this.#thread.start();
  }

  /** Takes a finished request of an app. */
  record(record: RequestRecord): void {
    const line = requestLine(record);
    if (!this.#takes('requests', encodedBytes(line))) return;
    this.#next.addRequest(record, line);
    this.#flushSoon();
  }

  /** Returns a sink for the output of one process of an app's release. Chunks are copied. */
  outputOf(appId: string, deployId: string): OutputSink {
    const pipes = { stdout: ++this.#lastId, stderr: ++this.#lastId };
    const lost: Record<OutputPipe, number | null> = { stdout: null, stderr: null };
    const take = (stream: OutputPipe, piece: Buffer, dropped: number | null, isLast: boolean) => {
      if (dropped !== null) lost[stream] = (lost[stream] ?? 0) + dropped;
      if (!this.#takes('output', piece.length)) {
        lost[stream] = (lost[stream] ?? 0) + countLines(piece);
        return;
      }
      // Copies only this chunk: its buffer may be part of a much larger one.
      const bytes = new Uint8Array(piece);
      const pipe = pipes[stream];
      this.#next.addOutput({
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
    const isCrowded = () => this.#waiting().output > PENDING_LIMITS.output / 4;
    return {
      get isCrowded() {
        return isCrowded();
      },
      write: (stream, piece, dropped) => take(stream, piece, dropped, false),
      end: (stream) => take(stream, Buffer.alloc(0), null, true),
    };
  }

  /** Takes a line that the host itself writes into an app's log. */
  say(appId: string, said: Said): void {
    if (!this.#takes('said', said.text.length)) return;
    this.#next.addSaid(appId, said);
    this.#flushSoon();
  }

  /** Takes a failed start of a release, or an unexpected end of a process. */
  failed(appId: string, failure: Failure): void {
    if (!this.#takes('failures', failure.reason.length)) return;
    this.#next.addFailure(appId, failure);
    this.#flushSoon();
  }

  /** Takes the resource use of an app's processes since the last call. */
  usage(appId: string, usage: Usage): void {
    this.#next.addUsage(appId, usage);
    this.#flushSoon();
  }

  /** Takes the slug of a new or renamed app. */
  name(appId: string, slug: string): void {
    if (this.#names.get(appId) === slug) return;
    this.#names.set(appId, slug);
    this.#thread.send({ type: 'names', names: [[appId, slug]] });
  }

  /** Makes the thread remove an app's data. */
  forget(appId: string): void {
    this.#names.delete(appId);
    this.#flush();
    this.#thread.send({ type: 'forget', appId });
  }

  /** Makes the thread remove data of all other apps. They may have been deleted while the thread was not running. */
  keepOnly(appIds: string[]): void {
    this.#thread.send({ type: 'keep', appIds });
  }

  /**
   * Starts the copies in the bucket. Call it when the bucket may be used. The thread first loads copies that it lacks.
   * @param hosts the other hosts; null for the only host
   */
  startCopies(hosts: KnownHosts | null): void {
    this.#copying = { type: 'copy', hosts };
    this.#thread.send(this.#copying);
  }

  /**
   * Queries the thread, after sending it all earlier items.
   * @throws {TelemetryError} when the thread is not running, has too many queries or is late; with a code if it refuses the
   *   query
   */
  ask<Name extends AskName>(name: Name, params: Asks[Name]['params']): Promise<Asks[Name]['answer']> {
    const appId = 'appId' in params ? params.appId : null;
    if (!this.#thread.isThere || this.#questions.isFull(appId)) {
      return Promise.reject(new TelemetryError(null, 'telemetry cannot be read just now; try again'));
    }
    this.#flush();
    const id = ++this.#lastId;
    const answer = this.#questions.add(id, name, appId);
    this.#thread.send({ type: 'ask', id, name, params });
    return answer;
  }

  /** Returns figures of telemetry. `dropped` counts items since the start of the host; `files` is null while unknown. */
  async stats(): Promise<{
    dropped: Record<string, number>;
    waiting: Record<Kind, number>;
    restarts: number;
    files: Record<string, number> | null;
  }> {
    const thread = await this.ask('stats', {}).catch(() => null);
    const dropped = addedUp(this.#dropped, this.#droppedByThreads, this.#droppedByThread);
    return {
      dropped,
      waiting: this.#waiting(),
      restarts: this.#thread.restarts,
      files: thread?.files ?? null,
    };
  }

  /**
   * Calls `onItems` with an app's new items, a few at a time. Continues after a restart of the thread. Call the returned
   * function to stop.
   * @param params returns the follower's filter and last item. Called now and at each start of the thread, to continue after
   *   that item
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
      if (this.#following.delete(id)) this.#thread.send({ type: 'unfollow', id });
    };
  }

  /** Writes everything and ends the thread, after 2 s at the latest. */
  async close(): Promise<void> {
    this.#flush();
    await this.#thread.close();
    this.#questions.refuseAll('the host is stopping');
  }

  /** Returns the size of the unwritten items of each kind, in the units of `PENDING_LIMITS`. */
  #waiting(): Record<Kind, number> {
    const waiting = none();
    for (const kind of KINDS) waiting[kind] = this.#next.sizes[kind] + this.#underWay.sizes[kind];
    return waiting;
  }

  /** Counts an item: in the next batch if the limit of its kind allows, otherwise as dropped. @returns whether it fits */
  #takes(kind: Kind, size: number): boolean {
    if (this.#next.sizes[kind] + this.#underWay.sizes[kind] + size > PENDING_LIMITS[kind]) {
      this.#dropped[kind]++;
      return false;
    }
    this.#next.count(kind, size);
    return true;
  }

  #flushSoon(): void {
    const { requests, output, said } = this.#next.sizes;
    if (requests + output + said >= BATCH_SIZE) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), BATCH_MS).unref();
  }

  #flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (!this.#thread.isThere || this.#next.isEmpty) return;
    const { sizes, counts } = this.#next;
    const batch = this.#next.take(++this.#seq);
    this.#underWay.add(batch.seq, sizes, counts);
    this.#thread.send(
      { type: 'batch', batch },
      batch.output.map(({ bytes }) => bytes.buffer as ArrayBuffer),
    );
    if (this.#underWay.ageMs > HANGS_MS) this.#thread.giveUp();
  }

  #sendFollow(id: number): void {
    const { appId, kind, params } = this.#following.get(id)!;
    this.#thread.send({ type: 'follow', id, appId, kind, params: params() });
  }

  #begin(): void {
    this.#thread.send({ type: 'names', names: [...this.#names] });
    for (const id of this.#following.keys()) this.#sendFollow(id);
    if (this.#copying !== null) this.#thread.send(this.#copying);
    this.#flushSoon();
  }

  #hear(message: FromThread): void {
    if (message.type === 'kept') this.#underWay.kept(message.seq);
    else if (message.type === 'answer') this.#questions.answer(message.id, message.answer);
    else if (message.type === 'refusal') {
      this.#questions.refuse(message.id, message);
    } else if (message.type === 'errors') this.#listeners.onErrors?.(message.groups);
    else if (message.type === 'reports') this.#listeners.onReports?.(message.reports, message.dropped);
    else if (message.type === 'push') this.#following.get(message.id)?.onItems(message.items);
    else if (message.type === 'dropped') this.#droppedByThread = message.dropped;
    else if (message.type === 'trouble')
      logRarely('error', `telemetry: ${message.message}`, { error: message.error });
  }

  /** Counts the items that an ended thread had not written as dropped. @returns how many of each kind */
  #lost(): Record<Kind, number> {
    const lost = this.#underWay.giveUp();
    for (const kind of KINDS) this.#dropped[kind] += lost[kind];
    this.#droppedByThreads = addedUp(this.#droppedByThreads, this.#droppedByThread);
    this.#droppedByThread = {};
    this.#questions.refuseAll('the thread of telemetry ended');
    return lost;
  }
}

function addedUp(...figures: Record<string, number>[]): Record<string, number> {
  const all: Record<string, number> = {};
  for (const each of figures)
    for (const [what, count] of Object.entries(each)) all[what] = (all[what] ?? 0) + count;
  return all;
}
