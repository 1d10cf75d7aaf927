// Telemetry as the host's thread sees it: whatever happens is put into batches for a thread of its own, which parses,
// groups and keeps it. Nothing here waits, and what finds no room is dropped and counted.
import type { RequestRecord } from '../edge/log/record.ts';
import { logRarely } from '../log.ts';
import { countLines } from '../processes/lines.ts';
import type { OutputPipe, OutputSink } from '../processes/output-sink.ts';
import { KeptThread } from './kept-thread.ts';
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
  Usage,
} from './protocol.ts';
import { Questions, TelemetryError } from './questions.ts';
import { handedBytes, requestLine } from './traces/request-lines.ts';
import { KINDS, MOST, none, UnderWay } from './under-way.ts';

/** How long something may wait for its batch, in ms. */
const BATCH_MS = 100;
/** A batch with so much in it does not wait, in characters and bytes. */
const BATCH_SIZE = 64 * 1024;
/** A thread that has kept nothing of a batch for so long hangs, in ms: it is ended, and another one started. */
const HANGS_MS = 30_000;

interface Following {
  appId: string;
  kind: FollowKind;
  params: () => unknown;
  onItems: (items: unknown[]) => void;
}

/** Takes what happens, at once and in any amount. */
export class Telemetry {
  readonly #thread: KeptThread;
  readonly #onErrors: (groups: OpenGroup[]) => void;
  /** Slugs of apps, as others read of them. */
  readonly #names = new Map<string, string>();
  #lastId = 0;

  readonly #next = new NextBatch();
  #timer: NodeJS.Timeout | null = null;

  #seq = 0;
  readonly #underWay = new UnderWay();
  /** For want of room or because the thread ended: requests, pieces of output, lines, ends of processes. */
  readonly #dropped = none();
  /** What the thread said that it dropped since its start, and those before it since theirs. */
  #droppedByThread: Record<string, number> = {};
  #droppedByThreads: Record<string, number> = {};
  readonly #questions = new Questions();
  readonly #following = new Map<number, Following>();

  /** @param onErrors is told of open groups of errors that have one more, of each at most once a minute */
  constructor(options: ThreadOptions, onErrors: (groups: OpenGroup[]) => void = () => {}) {
    this.#onErrors = onErrors;
    this.#thread = new KeptThread(options, {
      onStart: () => this.#begin(),
      onMessage: (message) => this.#hear(message),
      onLost: () => this.#lost(),
    });
  }

  /** Starts the thread. What came before waits for it. */
  start(): void {
    this.#thread.start();
  }

  /** Takes a request of an app that is over. */
  record(record: RequestRecord): void {
    const line = requestLine(record);
    if (!this.#takes('requests', handedBytes(line))) return;
    this.#next.addRequest(record, line);
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
    this.#next.addSaid(appId, said);
    this.#flushSoon();
  }

  /** Takes word of a release that did not start, or of a process that ended by itself. */
  failed(appId: string, failure: Failure): void {
    if (!this.#takes('failures', failure.reason.length)) return;
    this.#next.addFailure(appId, failure);
    this.#flushSoon();
  }

  /** Takes what an app's process has used since the last call. */
  usage(appId: string, usage: Usage): void {
    this.#next.addUsage(appId, usage);
    this.#flushSoon();
  }

  /** Takes an app's slug, when there is a new app or a new slug. */
  name(appId: string, slug: string): void {
    if (this.#names.get(appId) === slug) return;
    this.#names.set(appId, slug);
    this.#thread.send({ type: 'names', names: [[appId, slug]] });
  }

  /** Has the thread remove all that it keeps of an app. */
  forget(appId: string): void {
    this.#names.delete(appId);
    this.#flush();
    this.#thread.send({ type: 'forget', appId });
  }

  /** Has the thread remove all that it keeps of other apps: of such as were deleted while it was not there. */
  keepOnly(appIds: string[]): void {
    this.#thread.send({ type: 'keep', appIds });
  }

  /**
   * Asks the thread. What was handed over before is counted in the answer.
   * @throws {TelemetryError} when there is no answer in time, and with a code when the question is wrong
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

  /** Figures of telemetry itself. What was dropped counts since the host's start; `files` is null while they are not known. */
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
      if (this.#following.delete(id)) this.#thread.send({ type: 'unfollow', id });
    };
  }

  /** Has all that was taken written, and ends the thread. Gives that up after 2 s. */
  async close(): Promise<void> {
    this.#flush();
    await this.#thread.close();
    this.#questions.refuseAll('the host is stopping');
  }

  /** How much is not written yet, in characters and bytes. */
  #waiting(): Record<Kind, number> {
    const waiting = none();
    for (const kind of KINDS) waiting[kind] = this.#next.sizes[kind] + this.#underWay.sizes[kind];
    return waiting;
  }

  /** Whether there is room for so much more of a kind. Counts it as dropped if not. */
  #takes(kind: Kind, size: number): boolean {
    if (this.#next.sizes[kind] + this.#underWay.sizes[kind] + size > MOST[kind]) {
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
    this.#flushSoon();
  }

  #hear(message: FromThread): void {
    if (message.type === 'kept') this.#underWay.kept(message.seq);
    else if (message.type === 'answer') this.#questions.answer(message.id, message.answer);
    else if (message.type === 'refusal') {
      this.#questions.refuse(message.id, message);
    } else if (message.type === 'errors') this.#onErrors(message.groups);
    else if (message.type === 'push') this.#following.get(message.id)?.onItems(message.items);
    else if (message.type === 'dropped') this.#droppedByThread = message.dropped;
    else if (message.type === 'trouble')
      logRarely('error', `telemetry: ${message.message}`, { error: message.error });
  }

  /** What the thread had not written is lost. @returns how many of each kind */
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
