// The processes of an app beside its first one. Each is a member of the app's cluster and takes requests. workerd decides
// which process runs a Durable Object.
import { setTimeout as wait } from 'node:timers/promises';
import type { Upstream } from '../../edge/upstream/upstream.ts';
import { type Level, reason } from '../../log.ts';
import { Backoff } from '../../processes/backoff.ts';
import { aborted } from '../../threads/aborted.ts';
import type { MemoryGauge, MemoryUser } from '../admission/memory.ts';
import type { Cell } from '../process/cell.ts';
import { CoreUse } from '../process/core-use.ts';

/** A running process of the app, and the connections to it. */
export interface Replica {
  cell: Cell;
  upstream: Upstream;
}

export interface ReplicasOptions {
  memory: MemoryGauge;
  /** Starts a process. @param number as in `Launcher.launchBeside` */
  launch: (number: number, signal: AbortSignal) => Promise<Cell>;
  /** Returns the connections to a process. */
  connect: (cell: Cell) => Upstream;
  /** Writes a line to the app's own log. */
  say: (level: Level, words: string) => void;
  /** Called when a process did not start, or ended by itself. It is started again later. */
  onFailure: (mechanism: 'load' | 'crash', why: string) => void;
}

/** Time that requests in flight get before their process ends, in ms. */
const DRAIN_MS = 10_000;
/** Pause before the next start when the host is short of memory, or after an eviction for memory, in ms. */
const MEMORY_EVERY_MS = 1_000;

export class Replicas {
  readonly #options: ReplicasOptions;
  /** The keepers of the processes beside the first, by number. */
  readonly #keepers = new Map<number, Keeper>();
  /** By number: resolves when the latest keeper has stopped. Then its process has ended or was given away. */
  readonly #ended = new Map<number, Promise<void>>();
  /** The number of the first process. */
  #first = 0;
  /** The processes that take requests, without the first. */
  running: readonly Replica[] = [];

  constructor(options: ReplicasOptions) {
    this.#options = options;
  }

  /** Starts or ends processes until `count` run, the first one included. @param delayMs pause before each start */
  scale(count: number, delayMs = 0): void {
    for (const [number, keeper] of [...this.#keepers].reverse()) {
      if (this.#keepers.size < count) break;
      this.#keepers.delete(number);
      keeper.end();
    }
    for (let number = 0; this.#keepers.size < count - 1; number++) {
      if (number !== this.#first && !this.#keepers.has(number)) this.#keep(number, delayMs);
    }
  }

  /**
   * Makes another running process the first one, because the first has ended. The caller must end this process later.
   * @param delayMs pause before a further process starts in place of the ended one, in ms
   * @returns the new first process; null when no other process runs
   */
  takeOver(delayMs: number): Replica | null {
    for (const [number, keeper] of this.#keepers) {
      const replica = keeper.giveAway();
      if (replica === null) continue;
      const count = this.#keepers.size + 1;
      this.#keepers.delete(number);
      this.#first = number;
      this.scale(count, delayMs);
      return replica;
    }
    return null;
  }

  /** Ends all processes beside the first. @param drainMs time for requests in flight, in ms */
  async end(drainMs = DRAIN_MS): Promise<void> {
    for (const keeper of this.#keepers.values()) keeper.end(drainMs);
    this.#keepers.clear();
    await Promise.all(this.#ended.values());
  }

  #keep(number: number, delayMs: number): void {
    const keeper = new Keeper(number, this.#options, () => {
      this.running = [...this.#keepers.values()].flatMap(({ running }) => running ?? []);
    });
    this.#keepers.set(number, keeper);
    const before = this.#ended.get(number);
    this.#ended.set(number, keeper.keep(before, delayMs));
  }
}

/** Starts one process, and restarts it whenever it ends. */
class Keeper {
  running: Replica | null = null;
  readonly #number: number;
  readonly #options: ReplicasOptions;
  readonly #onChange: () => void;
  readonly #stop = new AbortController();
  readonly #backoff = new Backoff();
  readonly #user: MemoryUser;
  #drainMs = DRAIN_MS;
  #isGivenAway = false;
  /** Whether the start waits until the host has memory. */
  #isShort = false;
  /** Aborted to end the process because other apps need its memory. */
  #leaving = new AbortController();

  constructor(number: number, options: ReplicasOptions, onChange: () => void) {
    this.#number = number;
    this.#options = options;
    this.#onChange = onChange;
    const evict = (why: string) => this.#leaving.abort(new Error(why));
    this.#user = { footprint: 0, evict, coreUse: new CoreUse() };
  }

  /**
   * Starts the process, and again whenever it has ended. Resolves after `end` or `giveAway`. Never rejects.
   * @param before resolves when the previous keeper with this number has stopped; undefined: there was none
   * @param delayMs pause before the first start, in ms
   */
  async keep(before: Promise<void> | undefined, delayMs: number): Promise<void> {
    await before;
    for (let pauseMs = delayMs; ; ) {
      await wait(pauseMs, undefined, { signal: this.#stop.signal }).catch(() => {});
      if (this.#stop.signal.aborted) return;
      pauseMs = await this.#run();
    }
  }

  end(drainMs = DRAIN_MS): void {
    this.#drainMs = drainMs;
    this.#stop.abort();
    this.#set(null);
  }

  /** Stops the keeper but not its process. @returns the process, which the caller must end later; null when none runs */
  giveAway(): Replica | null {
    const { running } = this;
    if (running === null) return null;
    this.#isGivenAway = true;
    this.#set(null);
    this.#stop.abort();
    return running;
  }

  /** Runs a process until its end. @returns the pause before the next start, in ms */
  async #run(): Promise<number> {
    const { memory, launch, connect, say, onFailure } = this.#options;
    const { signal } = this.#stop;
    if (memory.over) {
      if (!this.#isShort) say('warn', 'fewer processes run than wanted: the host is short of memory');
      this.#isShort = true;
      return MEMORY_EVERY_MS;
    }
    this.#isShort = false;
    this.#leaving = new AbortController();
    try {
      const cell = await launch(this.#number, signal);
      memory.watch(cell, this.#user);
      const replica = { cell, upstream: connect(cell) };
      this.#set(replica);
      say('info', `one more process of the app runs; its start took ${Math.round(cell.startMs)} ms`);
      return await this.#untilEnd(replica);
    } catch (error) {
      if (signal.aborted) return 0;
      const { delayMs } = this.#backoff.failed();
      say('error', `one more process of the app does not start; next try in ${delayMs} ms: ${reason(error)}`);
      onFailure('load', reason(error));
      return delayMs;
    }
  }

  async #untilEnd(replica: Replica): Promise<number> {
    const { say, onFailure } = this.#options;
    const { cell, upstream } = replica;
    const leaving = AbortSignal.any([this.#stop.signal, this.#leaving.signal]);
    const exit = await Promise.race([cell.exited, aborted(leaving).catch(() => null)]);
    if (this.#isGivenAway) return 0;
    this.#set(null);
    if (exit === null) {
      if (!this.#stop.signal.aborted) say('warn', reason(this.#leaving.signal.reason));
      const { cut } = await upstream.drain(this.#drainMs);
      if (cut > 0) say('warn', `${cut} requests did not end within ${this.#drainMs / 1000} s and were cut`);
      await cell.stop();
      return MEMORY_EVERY_MS;
    }
    upstream.destroy();
    const { delayMs } = this.#backoff.next(performance.now() - cell.startedAt);
    say('error', `one of the app's processes ended, and is started again in ${delayMs} ms: ${exit.reason}`);
    onFailure('crash', exit.reason);
    return delayMs;
  }

  #set(running: Replica | null): void {
    this.running = running;
    this.#onChange();
  }
}
